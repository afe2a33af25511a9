"""Runs of training tables (SimuMax, BLOOM's prequel, the Ultra-Scale Playbook): a line → what was run.

What the tables leave out is what the sources' own scripts do; each function names them.
"""

from __future__ import annotations

import re
from dataclasses import replace

from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.training import DTYPES, Training
from perfcast.core.words import known_word
from perfcast.evidence.validate.runs.lines import Line, Run, UnreadableError
from perfcast.evidence.validate.runs.models import GATED, find_published, padded, transformer_of
from perfcast.evidence.validate.runs.plans import read_degrees
from perfcast.frameworks.load import load_training_profile

_ACCUMULATION = re.compile(r"\bgrad-acc (\d+)")
_LARGEST_LLAMA = "405b"
#: The playbook's script ties embeddings of models whose MLP is narrower than this.
_TIED_BELOW_FFN = 10_000


def read_simumax(line: Line) -> Run:
    """SimuMax's B200 runs: Megatron-LM 0.14, Transformer Engine, distributed optimizer, sequence parallel.

    Layers are cut; DeepSeek models keep one dense layer, have capacity factor 1 and no prediction layer
    (run_pretrain_deepseekv2.sh of its megatron_scripts); '_cef' in a case's name is cross-entropy fusion. Its
    tokenizer adds an end-of-document token to the vocabulary before that is padded.
    """
    tensor, name = line.whole("tp"), line.text("model")
    model = _read_simumax_model(line, name)
    plan = replace(
        read_degrees(line),
        zero_stage=1,
        sequence_parallel=tensor > 1,
        expert_parallel=line.whole("ep", 1),
    )
    case = re.search(r"case=(\S+?)(;|$)", f"{line.text('source_locator')};{line.text('notes')}")
    training = Training(
        dtype="bf16",
        optimizer="adam",
        framework="megatron",
        fuses_cross_entropy=bool(case and case[1].endswith("_cef")),
    )
    return Run(
        model=replace(model, vocab_size=_padded(model.vocab_size + 1, training, tensor)),
        plan=plan,
        training=training,
        sequence_length=line.whole("seq_len"),
        assumptions=(
            "no recomputation, as its launcher's default (0 layers) is",
            *(("16 query groups, as its launcher has them",) if _LARGEST_LLAMA in name else ()),
        ),
    )


def _read_simumax_model(line: Line, name: str) -> Transformer:
    """Its launchers train Llama-3.1-405B with 16 query groups (run_pretrain_llama3.sh, llama3-405b.json)."""
    if line.whole("ep", 1) > 1:  # its tables have no column for experts
        published = find_published(name, line.whole("layers"))
        if published is None or published.experts is None:
            raise UnreadableError("incomplete: num_experts")
        return published
    model = transformer_of(line, **GATED)
    return replace(model, num_kv_heads=16) if _LARGEST_LLAMA in name else model


def read_bloom(line: Line) -> Run:
    """BLOOM's prequel: Megatron-DeepSpeed, ZeRO 1, full recomputation, ALiBi, a norm behind
    the embedding, unfused attention, no dropout.

    chronicles-prequel.md and tr11-176B-ml.slurm of bigscience-workshop/bigscience. Until the bf16 optimizer
    came (section 'Rebalancing layers') gradients were kept in 16 bits, as fp16 does it; that optimizer adds
    them up in fp32, unsharded.
    """
    model = transformer_of(
        line,
        ffn_hidden_size=line.whole("ffn_hidden", 4 * line.whole("hidden")),
        positions="none",
        has_embedding_norm=True,
    )
    tensor = line.whole("tp")
    zero = re.search(r"ZeRO-(\d)", line.text("zero_or_fsdp"))
    dtype = "fp16" if "fp16" in line.text("dtype") else line.text("precision") or line.text("dtype")
    if dtype not in ("bf16", "fp16"):
        raise UnreadableError("incomplete: dtype")
    training = Training(
        dtype=known_word("dtype", dtype, DTYPES),
        optimizer="adam",
        framework="deepspeed",
        attention="math",
    )
    return Run(
        model=replace(model, vocab_size=_padded(model.vocab_size, training, tensor)),
        plan=replace(read_degrees(line), zero_stage=int(zero[1]) if zero else 1, recompute="full"),
        training=training,
        sequence_length=line.whole("seq_len"),
        assumptions=("full recomputation and no dropout, as in the run's published script",),
    )


def read_playbook(line: Line) -> Run:
    """The Ultra-Scale Playbook's grid: nanotron, 1F1B, fp32 gradient accumulation, no recomputation.

    scripts/scaling_benchmarks.py and examples/config_tiny_llama_bench.yaml of huggingface/nanotron:
    tensor parallelism in mode REDUCE_SCATTER (sequence parallel), AdamW, embeddings tied in small models.
    """
    model = transformer_of(line, **GATED)
    model = replace(model, ties_embeddings=model.ffn_hidden_size < _TIED_BELOW_FFN)
    accumulation = _ACCUMULATION.search(line.text("notes"))
    stated = line.whole("grad_acc") if line.find("grad_acc") is not None else None
    steps = int(accumulation[1]) if accumulation else stated
    stage = line.number("zero_stage") if line.find("zero_stage") is not None else line.number("zero")
    if stage is None:
        raise UnreadableError("incomplete: zero_stage")
    plan = replace(
        read_degrees(line, num_micro_batches=steps),
        zero_stage=int(stage),
        sequence_parallel=line.whole("tp") > 1,
    )
    return Run(
        model=model,
        plan=plan,
        training=Training(dtype="bf16", optimizer="adamw", framework="nanotron"),
        sequence_length=line.whole("seq_len"),
        assumptions=(
            "no recomputation, 1F1B and sequence parallel, as the grid's published script has them",
        ),
    )


def read_galvatron(line: Line) -> Run:
    """Galvatron's profiles of a few layers of Llama-2-7B: one micro-batch, FSDP that shards everything.

    The strategy's name is pipeline, tensor and data degree, then 'c' for checkpointed layers, 'vtp' for a
    vocabulary cut over the tensor-parallel ranks, 'sp' for sequence parallelism. 16 bytes a parameter over
    the data-parallel ranks are what its model states grow by from one layer to two.
    """
    marks = line.text("strategy").split("_")[3:]
    model = find_published("llama2-7b", line.whole("layers"))
    if model is None:
        raise UnreadableError("incomplete: hidden")
    data, tensor = line.whole("dp"), line.whole("tp")
    plan = Plan(
        data_parallel=data,
        tensor_parallel=tensor,
        pipeline_parallel=line.whole("pp"),
        micro_batch_size=max(1, line.whole("global_batch") // data),
        zero_stage=3,
        sequence_parallel="sp" in marks and tensor > 1,
        recompute="full" if "c" in marks else "none",
    )
    return Run(
        model=model,
        plan=plan,
        training=Training(dtype="bf16", optimizer="adam", framework="fsdp"),
        sequence_length=line.whole("seq_len"),
        assumptions=("FSDP, Adam and one micro-batch; the vocabulary cut over tensor-parallel ranks",),
    )


def _padded(vocabulary: int, training: Training, tensor_parallel: int) -> int:
    """The vocabulary as the framework pads it."""
    return padded(vocabulary, load_training_profile(training.framework).vocabulary_multiple * tensor_parallel)
