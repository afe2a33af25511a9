"""Published training runs: a line of configuration columns → model, plan, training, cluster.

Nothing that was measured is read, and no notes, since those mix both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from perfcast.catalogs.devices import load_device
from perfcast.core.machine.cluster import Cluster
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import RECOMPUTE, Plan, Recompute
from perfcast.core.plans.text import usual_reshard
from perfcast.core.training import DTYPES, FLASH_VERSIONS, AttentionKernels, FlashVersion, Training
from perfcast.core.tuning.trained import FULL, Adapters, Tuning
from perfcast.evidence.validate.published.models import is_lora, published_model
from perfcast.evidence.validate.published.setups import Setup, setup_of, source_of
from perfcast.evidence.validate.published.systems import published_cluster
from perfcast.evidence.validate.runs.lines import Line, Run, UnreadableError
from perfcast.evidence.validate.runs.models import padded
from perfcast.evidence.validate.runs.plans import read_degrees
from perfcast.evidence.validate.runs.sources import read_bloom, read_playbook, read_simumax

#: Without these a run is not described ('complete' rows have all).
NEEDED = (
    "layers",
    "hidden",
    "heads",
    "device",
    "num_gpus",
    "tp",
    "pp",
    "dp",
    "micro_batch",
    "global_batch",
    "seq_len",
    "precision",
)
#: Columns in which a line may say that layers are compiled.
_COMPILE_COLUMNS = ("id", "source_locator", "zero_or_fsdp", "dtype", "attention_impl", "recompute")


@dataclass(frozen=True, kw_only=True)
class PublishedRun:
    """What was run, and on what.

    Attributes:
        run: Model, plan, training and sequence length.
        replays_graphs: Whether the host replays CUDA graphs, and is never late.
        slower_device: Where the devices lie between the line's and another of the catalog: that one.
    """

    run: Run
    cluster: Cluster
    slower_device: str | None = None
    replays_graphs: bool = False

    @property
    def trains_adapters(self) -> bool:
        """Whether the model's own weights are frozen (LoRA)."""
        return self.run.training.tuning.adapters is not None


def read_published_run(cells: Mapping[str, Any], device: str) -> PublishedRun:
    """The run of a complete line on a device of the catalog.

    Raises:
        UnreadableError: A column is empty that a forecast needs, or values contradict.
        PlanError: Degrees contradict.
    """
    line = Line({name: value for name, value in cells.items() if name != "notes"})
    for column in NEEDED:
        if line.find(column) is None:
            raise UnreadableError(f"incomplete: {column}")
    source = source_of(line)
    reader = _READERS.get(source)
    run = reader(line) if reader else _read_run(line)
    cluster, assumed = published_cluster(line, device)
    if cluster.num_devices < run.plan.world_size:
        raise UnreadableError("impossible value")
    slower = _slower_device(line, device)
    if slower is not None:
        assumed = (*assumed, f"devices between {device} and {slower}: kernels at the geometric mean of both")
    run = replace(run, assumptions=(*run.assumptions, *assumed))
    return PublishedRun(
        run=run, cluster=cluster, slower_device=slower, replays_graphs=_replays_graphs(line, device)
    )


def _slower_device(line: Line, device: str) -> str | None:
    """H100s with 96 GB of HBM2e have a lower power limit; their peak lies between those of SXM and NVL
    (Liang et al.: TorchTitan, arXiv:2410.06511)."""
    words = f"{line.text('gpu')} {line.text('gpu_mem_gb')}".lower()
    is_limited = re.search(r"\b9[56]\s*(?:gb|gib)?\b|hbm2e", words) is not None
    return "h100-nvl" if device == "h100-sxm" and is_limited else None


def _read_run(line: Line) -> Run:
    setup = setup_of(line)
    model, assumed = published_model(line, setup.vocab_size)
    model = replace(model, has_dropout=setup.has_dropout, has_attention_dropout=setup.has_dropout)
    plan = _plan(line, setup, model)
    vocabulary = padded(model.vocab_size, setup.profile.vocabulary_multiple * plan.tensor_parallel)
    dtype = next((label for label in DTYPES if label == line.text("precision")), None)
    if dtype is None:
        raise UnreadableError("incomplete: precision")
    is_deepspeed = setup.framework == "megatron_local" and plan.zero_stage == 3
    training = Training(
        dtype=dtype,
        optimizer="adamw",
        framework="deepspeed" if is_deepspeed else setup.framework,
        attention=_attention(line, setup),
        flash_version=_flash_version(line, setup),
        compiles=_compiles(line, setup),
        tuning=_tuning(line),
    )
    return Run(
        model=replace(model, vocab_size=vocabulary),
        plan=plan,
        training=training,
        sequence_length=line.whole("seq_len"),
        assumptions=(*setup.assumptions, *assumed, *_unstated(line, setup)),
    )


def _unstated(line: Line, setup: Setup) -> tuple[str, ...]:
    if line.text("recompute_mode") in ("", "unknown"):
        return (f"recomputation is not stated: '{setup.recompute}', the program's default",)
    return ()


def _replays_graphs(line: Line, device: str) -> bool:
    """LoRA of MLPerf's rounds 5.0 and 5.1 on NVIDIA's devices: their configurations set MCORE_CUDA_GRAPH=1
    (mlcommons/training_results_v5.0: NVIDIA/benchmarks/llama2_70b_lora/implementations, config_*.sh).
    """
    is_recent = re.search(r"MLPerf Training v5\.", line.text("source")) is not None
    return is_lora(line) and is_recent and load_device(device).vendor == "nvidia"


def _tuning(line: Line) -> Tuning:
    """Adapters of LoRA runs: MLPerf's submissions state theirs (mlcommons/training_results_v5.0:
    NVIDIA/benchmarks/llama2_70b_lora, prepare_model: rank 16, all-to-all), NeMo's
    configuration has adapters of rank 32 beside queries, keys and values (NVIDIA/NeMo:
    megatron_gpt_finetuning_config.yaml, lora_tuning).
    """
    if not is_lora(line):
        return FULL
    if "mlperf" in source_of(line).lower():
        return Tuning(
            adapters=Adapters(rank=16, targets=("q", "k", "v", "o"), dropout=0.1, trades_outputs=True)
        )
    return Tuning(adapters=Adapters(rank=32, targets=("q", "k", "v")))


def _attention(line: Line, setup: Setup) -> AttentionKernels:
    words = line.text("attention_impl").lower()
    if "unfused" in words or "no flash" in words:
        return "math"
    if re.search(r"flash|cudnn|fused|sdpa|te\b", words):
        return "flash"
    return setup.attention


def _flash_version(line: Line, setup: Setup) -> FlashVersion | None:
    stated = re.search(r"flash.?(?:attention)?.{0,2}v?([123])\b", line.text("attention_impl").lower())
    return FLASH_VERSIONS[int(stated[1]) - 1] if stated else setup.flash_version


def _compiles(line: Line, setup: Setup) -> bool:
    """Whether layers are compiled: as a line says, where the program has something to compile."""
    if setup.profile.compiled is None:
        return False
    words = " ".join(line.text(column) for column in _COMPILE_COLUMNS).lower()
    if re.search(r"\b(?:no|without|not)\b[\w. ]{0,12}compile", words):
        return False
    return setup.compiles or "compile" in words


def _recompute(line: Line, setup: Setup) -> Recompute:
    stated = line.text("recompute_mode")
    return next((mode for mode in RECOMPUTE if mode == stated), setup.recompute)


def _plan(line: Line, setup: Setup, model: Transformer) -> Plan:
    pipeline, sequences = line.whole("pp"), line.whole("micro_batch") * line.whole("dp")
    stated = line.whole("vpp", setup.virtual_stages(pipeline, model.num_layers))
    chunks, layers = _chunks(stated, pipeline, model.num_layers)
    plan = read_degrees(
        line,
        num_micro_batches=max(1, round(line.whole("global_batch") / sequences)),
        virtual_stages_per_rank=chunks,
    )
    cuts_layers = plan.tensor_parallel > 1
    stage = line.number("zero_stage")
    stage = setup.zero_stage if stage is None else int(stage)
    is_hybrid = "hsdp" in line.text("zero_or_fsdp").lower()
    replicas = plan.data_parallel * plan.context_parallel
    shards = min(line.whole("gpus_per_node", 8), replicas) if is_hybrid else None
    kernels = setup.profile.kernels
    keeps = "shard_grad_op" in line.text("zero_or_fsdp").lower() or "not resharded" in line.text(
        "zero_or_fsdp"
    )
    stage = 3 if keeps and setup.framework in ("fsdp", "torchtitan") else stage
    return replace(
        plan,
        expert_parallel=line.whole("ep", 1),
        stage_layers=layers,
        zero_stage=stage,
        reshard_after_forward=not keeps and usual_reshard(stage, plan.pipeline_parallel),
        num_shards=shards,
        sequence_parallel=cuts_layers and _is_sequence_parallel(line, setup),
        recompute=_recompute(line, setup),
        order=setup.order,
        overlaps_tensor=setup.overlaps_tensor and cuts_layers,
        overlaps_gradients=kernels.overlaps_gradients
        if setup.overlaps_gradients is None
        else setup.overlaps_gradients,
        overlaps_weights=kernels.overlaps_weights
        if setup.overlaps_weights is None
        else setup.overlaps_weights,
    )


def _is_sequence_parallel(line: Line, setup: Setup) -> bool:
    stated = line.text("sequence_parallel").lower()
    if stated.startswith("yes"):
        return True
    return setup.is_sequence_parallel if not stated or stated.startswith("not stated") else False


def _chunks(stated: int, stages: int, num_layers: int) -> tuple[int, tuple[int, ...]]:
    """Virtual stages of a rank, and layers of each part where embedding and head count as layers."""
    if stages == 1:
        return 1, ()
    parts = stages * stated
    if num_layers % parts == 0:
        return stated, ()
    if (num_layers + 2) % parts == 0:
        each = (num_layers + 2) // parts
        return stated, (each - 1, *(each,) * (parts - 2), each - 1)
    return (stated, ()) if num_layers >= parts and stated == 1 else (1, ())


# ---- sources that the memory suite reads too --------------------------------------------------------------


def _read_playbook(line: Line) -> Run:
    """Nanotron reduces gradients beside the backward, in buckets of 25 MB (ddp_bucket_cap_mb of its file)."""
    run = read_playbook(line)
    plan = replace(run.plan, overlaps_tensor=False, overlaps_gradients=True)
    return replace(run, plan=plan, training=replace(run.training, flash_version=2))


def _read_simumax(line: Line) -> Run:
    run = read_simumax(line)
    plan = replace(run.plan, overlaps_gradients=False, overlaps_weights=False, overlaps_tensor=False)
    return replace(run, plan=plan, assumptions=(*run.assumptions, "no communication overlapped, as stated"))


def _read_bloom(line: Line) -> Run:
    run = read_bloom(line)
    return replace(run, plan=replace(run.plan, overlaps_gradients=False, overlaps_weights=False))


_READERS = {"usp": _read_playbook, "simumax": _read_simumax, "bloom": _read_bloom}
