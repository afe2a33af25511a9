"""Megatron-LM's golden values: allocated bytes of the small models that its functional tests train.

The memory is of the last rank, so of the last pipeline stage: only that rank writes to TensorBoard
(``_set_tensorboard_writer`` of megatron/training/global_vars.py), and the golden values are read from there.
'mem-max-allocated-bytes' is the allocator's ``allocated_bytes.all.peak``, 'mem-allocated-bytes' its
``allocated_bytes.all.current`` after a step (``training_log`` of megatron/training/training.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from perfcast.core.model.transformer import Experts, LatentAttention, Transformer
from perfcast.core.plan import Plan
from perfcast.core.training import DTYPES, Training
from perfcast.core.words import known_word
from perfcast.evidence.validate.runs.lines import Line, Run, UnreadableError
from perfcast.evidence.validate.runs.models import padded, transformer_of
from perfcast.evidence.validate.runs.plans import read_degrees

_MULTIPLE = 128
#: Vocabulary and the multiple (times tensor-parallel degree) that it is padded to, by test case, first match;
#: tokenizer and --make-vocab-size-divisible-by of tests/functional_tests/test_cases/*/model_config.yaml.
_VOCABULARIES: tuple[tuple[str, int, int], ...] = (
    (r"bert_", 30522, _MULTIPLE),  # BERT's word pieces
    (r"gpt3_15b|mixtral_", 256_000, _MULTIPLE),  # nemotron_2_256k.model
    (r"deepseekv3_proxy", 256_000, 3232),
    (r"gpt3_7b", 131_073, _MULTIPLE),  # --vocab-size
    (r"tp2_pp2_ep4_etp1", 50_257, 3232),
    (r"", 50_257, _MULTIPLE),  # GPT-2's byte pairs, the tests' default
)
#: Kinds of model with layers that a stack of equal transformer layers cannot say: cross-attention, state
#: spaces, image encoders.
_OTHER_FAMILIES = ("t5", "hybrid", "mimo", "multimodal-llava", "nemotron")
#: Reinforcement learning, uneven stages.
_OTHER_PLANS = r"grpo|uneven_pipeline|account_for_embedding_loss|offloading"
_LATENT = LatentAttention(
    query_rank=1536, kv_rank=512, nope_head_size=128, rope_head_size=64, value_head_size=128
)
_SMALL_LATENT = LatentAttention(
    query_rank=192, kv_rank=64, nope_head_size=16, rope_head_size=8, value_head_size=16
)


def read_golden(line: Line) -> Run:
    """What a test trained; the vocabulary is not in the table (see ``_VOCABULARIES``).

    Raises:
        UnreadableError: A column is empty, or the test is none of a transformer under a plan.
    """
    name = line.text("test_case")
    for column in ("gpu", "hidden", "layers", "micro_batch", "num_gpus", "dp", "global_batch"):
        if line.find(column) is None:
            raise UnreadableError(f"incomplete: {column}")
    if line.text("family") in _OTHER_FAMILIES:
        raise UnreadableError("unsupported operation")
    if re.search(_OTHER_PLANS, name) or line.text("recompute").startswith("selective:"):
        raise UnreadableError("unsupported plan")
    plan = _read_plan(line)
    model = _read_model(line, name)
    if model.num_layers % (plan.pipeline_parallel * plan.virtual_stages_per_rank):
        raise UnreadableError("unsupported plan")
    training = _read_training(line, name)
    leaves_open = not line.text("attention_backend") and training.attention == "flash"
    return Run(
        model=model,
        plan=plan,
        training=training,
        sequence_length=line.whole("seq_len"),
        assumptions=(
            f"vocabulary of {model.vocab_size}, padded, and what else the table leaves out as in the test's "
            "public configuration",
            *(("attention is not stated: fused, or not where a library cannot",) if leaves_open else ()),
        ),
        instead=replace(training, attention="math") if leaves_open else None,
    )


def _read_model(line: Line, name: str) -> Transformer:
    size, multiple = next((size, each) for key, size, each in _VOCABULARIES if re.search(key, name))
    model = transformer_of(
        line,
        head_size=line.whole("kv_channels", 0) or None,
        vocab_size=padded(size, multiple * line.whole("tp")),
        is_gated=line.flag("swiglu"),
        activation="silu" if line.flag("swiglu") else "gelu",
        positions="learned",
        max_positions=line.whole("seq_len"),
        ties_embeddings=not line.flag("untie_embeddings"),
        has_dropout=True,
        has_attention_dropout=True,
    )
    if line.find("num_experts") is not None:
        model = replace(model, experts=_read_experts(line), has_linear_bias=False, has_qkv_bias=False)
    if line.flag("mla"):
        model = replace(model, latent_attention=_SMALL_LATENT if model.hidden_size == 512 else _LATENT)
    changes: dict[str, Any] = {}
    for pattern, change in _CHANGES.items():
        if re.search(pattern, name):
            changes |= change(model)
    return replace(model, **changes)


def _read_experts(line: Line) -> Experts:
    return Experts(
        num_experts=line.whole("num_experts"),
        experts_per_token=line.whole("moe_topk"),
        ffn_hidden_size=line.whole("moe_ffn_hidden", line.whole("ffn_hidden")),
    )


_BERT = {"is_causal": False, "num_token_types": 2, "has_head_transform": True, "has_head_bias": True}
_Change = Callable[[Transformer], Mapping[str, Any]]


def _experts(model: Transformer, *, shared: int, dense: int) -> Mapping[str, Any]:
    if model.experts is None:
        return {}
    return {"experts": replace(model.experts, shared_ffn_hidden_size=shared, num_dense_layers=dense)}


_ROTATED = {"positions": "rope", "max_positions": 0}
_PLAIN = {"has_linear_bias": False, "has_qkv_bias": False}
_MODERN = {**_ROTATED, **_PLAIN, "has_dropout": False, "has_attention_dropout": False}
#: What model_config.yaml of some tests changes, by test case.
_CHANGES: Mapping[str, _Change] = {
    r"bert_": lambda model: _BERT,
    r"rope_embeddings": lambda model: _ROTATED,
    r"disable_bias_linear": lambda model: _PLAIN,
    r"qk_layernorm": lambda model: {"has_head_norms": True},
    r"gpt3_weekly": lambda model: {"norm": "rmsnorm"},
    r"gpt3_15b": lambda model: {**_MODERN, "activation": "relu"},
    r"mixtral_|deepseekv3_proxy|tp2_pp2_ep4_etp1": lambda model: {**_MODERN, "norm": "rmsnorm"},
    r"tp2_pp2_ep4_etp1": lambda model: {
        **_experts(model, shared=1024, dense=1),
        "num_prediction_layers": 1,
    },
    r"deepseekv3_proxy": lambda model: {
        **_experts(model, shared=2048, dense=3),
        "num_prediction_layers": 1,
    },
}


def _read_plan(line: Line) -> Plan:
    plan, experts = read_degrees(line), line.find("num_experts") is not None
    return replace(
        plan,
        expert_parallel=line.whole("ep", 1) if experts else 1,
        expert_tensor_parallel=line.whole("etp", plan.tensor_parallel) if experts else None,
        zero_stage=_zero_stage(line.text("sharding")),
        sequence_parallel=line.flag("sequence_parallel"),
        recompute="full" if line.text("recompute").startswith("full") else "none",
    )


def _zero_stage(sharding: str) -> int:
    if "optim_grads_params" in sharding:
        return 3
    return 1 if sharding.startswith("dist-optimizer") else 0


def _read_training(line: Line, name: str) -> Training:
    dtype = line.text("dtype").partition(":")[0]
    backend = line.text("attention_backend")
    is_local = line.text("transformer_impl") == "local" or "local_spec" in name
    is_math = backend in ("unfused", "local") or (not backend and is_local)
    return Training(
        dtype=known_word("dtype", dtype, DTYPES),
        optimizer="muon" if "muon" in name else "adam",
        framework="megatron_local" if is_local else "megatron",
        attention="math" if is_math else "flash",
        fuses_cross_entropy="deepseekv3_proxy" in name,  # 'te'; what others fuse ('native') stays in fp32
    )
