"""What the programs of published runs do where a table does not say: a framework, and how a source departs.

A line's own columns (recomputation, sharding, sequence parallelism, attention) come first; a setup fills in
the defaults of the source's scripts, and says so. A source that is not listed is read by its words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from perfcast.core.plan import RankOrder, Recompute
from perfcast.core.training import AttentionKernels, FlashVersion, TrainingFramework
from perfcast.evidence.validate.runs.lines import Line
from perfcast.frameworks.load import load_training_profile
from perfcast.frameworks.profile import TrainingProfile


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Defaults of one source: what its scripts set beside what its framework's profile says.

    Attributes:
        name: Of the source, as summaries group by it.
        framework: Of ``core.training.FRAMEWORKS``.
        attention: 'flash' or 'math' where the line does not say.
        zero_stage, recompute: Where the line does not say.
        is_sequence_parallel: With tensor parallelism, where the line does not say.
        overlaps_tensor: Of ``core.plan.Plan``.
        overlaps_gradients, overlaps_weights: The same; None: where the framework can.
        has_dropout: Whether training drops.
        vocab_size: Where the line does not say; None: that of models of the family.
        order: Of the axes of ranks.
        interleaves: Whether a pipeline's chunks are single layers where the line does not say.
        flash_version: Of ``core.training.Training``, where the line does not say.
        compiles: The same.
        assumptions: In words, without a full stop.
    """

    name: str
    framework: TrainingFramework
    attention: AttentionKernels = "flash"
    zero_stage: int = 0
    recompute: Recompute = "none"
    is_sequence_parallel: bool = True
    overlaps_tensor: bool = False
    overlaps_gradients: bool | None = None
    overlaps_weights: bool | None = None
    has_dropout: bool = False
    vocab_size: int | None = None
    order: RankOrder = "tp-cp-dp-pp"
    flash_version: FlashVersion | None = None
    interleaves: bool = False
    compiles: bool = False
    assumptions: tuple[str, ...] = ()

    @property
    def profile(self) -> TrainingProfile:
        """Of the framework."""
        return load_training_profile(self.framework)

    def virtual_stages(self, num_stages: int, num_layers: int) -> int:
        """Chunks of a rank where the line does not say."""
        if not self.interleaves or num_stages == 1 or num_layers % num_stages:
            return 1
        return num_layers // num_stages


#: Megatron-LM without Transformer Engine, before its overlap of gradients (2021 to 2022).
_MEGATRON_2021 = Setup(
    name="megatron",
    framework="megatron_local",
    attention="math",
    recompute="full",
    is_sequence_parallel=False,
    has_dropout=True,
    assumptions=(
        "Megatron-LM of 2021: unfused attention with a fused softmax, dropout, gradients reduced behind the "
        "last backward",
    ),
)
#: NeMo's performance recipes: Megatron Core and Transformer Engine (NVIDIA/NeMo: scripts/performance,
#: collections/llm/recipes), distributed optimizer, everything overlapped that can be.
_NEMO = Setup(
    name="nemo",
    framework="nemo",
    zero_stage=1,
    overlaps_tensor=True,
    interleaves=True,
    assumptions=(
        "NeMo's performance recipes: distributed optimizer, gradients in bf16; gradients, weights and "
        "tensor-parallel communication overlapped, no dropout, pipelines interleaved by single layers where "
        "not stated",
    ),
)
#: Megatron Core by itself: gradients in fp32, as its arguments set them for bf16.
_MEGATRON_CORE = replace(
    _NEMO,
    name="mcore",
    framework="megatron",
    assumptions=(
        "Megatron Core: distributed optimizer, gradients in fp32; gradients, weights and tensor-parallel "
        "communication overlapped, no dropout, pipelines interleaved by single layers where not stated",
    ),
)
_FSDP = Setup(
    name="fsdp",
    framework="fsdp",
    zero_stage=3,
    flash_version=2,
    assumptions=("FSDP with prefetch, mixed precision, AdamW, FlashAttention 2 as PyTorch has it",),
)
#: torchtitan's own files of settings for Llama 3 (torchtitan/models/llama3/train_configs): selective by
#: operators in that of 8B, full in those of 70B and 405B.
_TORCHTITAN = Setup(
    name="torchtitan",
    framework="torchtitan",
    zero_stage=3,
    recompute="selective",
    flash_version=2,
    assumptions=("torchtitan: FSDP2, gradients reduced in fp32, fused AdamW, FlashAttention 2",),
)

#: By the prefix of a line's id.
SETUPS = {
    "vtrain": Setup(
        name="vtrain",
        framework="deepspeed",
        attention="math",
        recompute="full",
        is_sequence_parallel=False,
        has_dropout=True,
        vocab_size=50_257,
        assumptions=(
            "Megatron-DeepSpeed: unfused attention with a fused softmax, dropout, no gradient buckets "
            "(use_gradient_bucket false in the source's configurations), GPT-2's vocabulary",
        ),
    ),
    "bloom": Setup(
        name="bloom",
        framework="deepspeed",
        attention="math",
        zero_stage=1,
        recompute="full",
        is_sequence_parallel=False,
        assumptions=("Megatron-DeepSpeed with ALiBi, unfused attention, no dropout (tr11-176B-ml.slurm)",),
    ),
    "sc21": _MEGATRON_2021,
    "korth": _MEGATRON_2021,
    "mlm": _MEGATRON_2021,
    "mtnlg": _MEGATRON_2021,
    "dgxc": _NEMO,
    "nemo": _NEMO,
    "gcp": _NEMO,
    "mlperf": _NEMO,
    "mcore": _MEGATRON_CORE,
    "llmfoundry": Setup(
        name="llmfoundry",
        framework="fsdp",
        zero_stage=3,
        flash_version=1,
        assumptions=(
            "Composer's FSDP, AdamW, MPT without biases; FlashAttention 1, since its tables were made before "
            "PyTorch 2.0 (note in scripts/train/benchmarking/README.md)",
        ),
    ),
    "fms": replace(
        _FSDP,
        name="fms",
        compiles=True,
        assumptions=(*_FSDP.assumptions, "layers compiled by torch.compile (fms-fsdp: README.md)"),
    ),
    "llmc": Setup(
        name="llmc",
        framework="megatron_local",
        zero_stage=1,
        overlaps_gradients=True,
        assumptions=("a program in C and CUDA: gradients reduced beside the last backward",),
    ),
}
#: By words of a line's source, model and sharding, for sources that are not listed.
_BY_WORDS = (
    (r"torchtitan", _TORCHTITAN),
    (r"fsdp|llama.?cookbook|maxtext|axlearn|olmo", _FSDP),
    (r"nemo|megatron.?bridge|dgx ?cloud", _NEMO),
    (r"deepspeed|zero-[23]", Setup(name="deepspeed", framework="deepspeed", zero_stage=1, recompute="full",
                                   assumptions=("DeepSpeed, full recomputation",))),
    (r"megatron|mcore", _MEGATRON_CORE),
)  # fmt: skip


def setup_of(line: Line) -> Setup:
    """The setup of a line, by its source or by its words."""
    prefix = source_of(line)
    if prefix in SETUPS:
        return SETUPS[prefix]
    words = " ".join(line.text(column) for column in ("id", "source", "zero_or_fsdp", "dtype")).lower()
    found = next((setup for pattern, setup in _BY_WORDS if re.search(pattern, words)), None)
    if found is not None:
        return found
    is_sharded = line.whole("tp", 1) * line.whole("pp", 1) > 1
    return _NEMO if is_sharded else _FSDP


def source_of(line: Line) -> str:
    """Whose runs: the beginning of the line's id."""
    return line.text("id").partition("-")[0].lower() or "unknown"
