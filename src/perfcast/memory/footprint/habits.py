"""What the programs that train models keep per parameter and per activation, and how they differ."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perfcast.core.training import Training
from perfcast.errors import PlanError
from perfcast.memory.footprint.fitted import fitted_habits


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """Habits of one framework at one precision.

    Attributes:
        weight_bytes: Of a parameter as it is kept.
        compute_weight_bytes: Of a parameter as the forward reads it, where it is gathered or cast.
        gradient_bytes: Of the buffer in which gradients are summed over micro-batches.
        local_gradient_bytes: Of what autograd hands over and keeps beside that buffer, at the peak.
        bucket_bytes: Of buckets for the reduction of unsharded gradients among several replicas.
        has_master_weights: Whether the optimizer keeps fp32 copies.
        keeps_dummy_gradients: Whether an empty gradient for each shape of matrix stays allocated.
        vocabulary_multiple: What the vocabulary is padded to a multiple of, times the tensor parallelism.
        softmax_bytes: Of what the loss makes of a logit, beside the logit, unless it is fused.
        keeps_joint_qkv: Whether queries keep the joint projection alive, and keys and values are a copy.
        keeps_gate: Whether the gate's activation is kept beside the product with it.
        further_width: Further elements per token and layer, in hidden sizes, found by measuring.
        tensors_issued_ahead: Unsharded tensors of asynchronous collectives that wait for the device, since
            the host runs ahead of it; of tokens × hidden size, with tensor parallelism and no pipeline.
        balances_stages: Whether the head counts when layers are dealt out to stages.
        has_second_workspace: Whether a second library keeps a workspace for its products.
        other_bytes: Of small buffers that stay, found by measuring.
        source: Where the habits are written down.
    """

    weight_bytes: float
    compute_weight_bytes: int
    gradient_bytes: float
    local_gradient_bytes: float = 0.0
    bucket_bytes: float = 0.0
    has_master_weights: bool = False
    keeps_dummy_gradients: bool = False
    vocabulary_multiple: int = 1
    softmax_bytes: float = 4
    keeps_joint_qkv: bool = False
    keeps_gate: bool = False
    further_width: float = 0.0
    tensors_issued_ahead: float = 0.0
    balances_stages: bool = False
    has_second_workspace: bool = False
    other_bytes: float = 0
    source: str


def habits_of(training: Training) -> Habits:
    """Habits of the training's framework at its precision.

    In fp32 and tf32 there is one copy of everything, of four bytes.

    Raises:
        PlanError: Plain PyTorch, which is described elsewhere.
    """
    if training.framework == "pytorch":
        raise PlanError("plain PyTorch has a closed form of its own: estimate_footprint takes it")
    mixed = {
        "megatron": _megatron,
        "megatron_local": _megatron_local,
        "nanotron": _nanotron,
        "deepspeed": _deepspeed_fp16 if training.dtype == "fp16" else _deepspeed,
        "fsdp": _fsdp,
    }[training.framework]()
    if training.dtype not in ("fp32", "tf32"):
        return mixed
    return replace(
        mixed, weight_bytes=4, compute_weight_bytes=4, gradient_bytes=4, local_gradient_bytes=0,
        bucket_bytes=4 if mixed.bucket_bytes else 0, has_master_weights=False,
    )  # fmt: skip


def element_bytes(training: Training) -> int:
    """Bytes of an activation."""
    return 4 if training.dtype in ("fp32", "tf32") else 2


def product_bytes(training: Training) -> int:
    """Bytes of an element that is kept for the weight gradient of a product."""
    return 1 if training.dtype == "fp8" else element_bytes(training)


def _megatron() -> Habits:
    return Habits(
        weight_bytes=2, compute_weight_bytes=2, gradient_bytes=4, has_master_weights=True,
        keeps_dummy_gradients=True, vocabulary_multiple=128, has_second_workspace=True,
        **fitted_habits("megatron"),
        source="Megatron-LM: distributed_data_parallel, distrib_optimizer, optimizer.py; Transformer "
        "Engine: module/linear.py, layernorm_linear.py",
    )  # fmt: skip


def _megatron_local() -> Habits:
    return replace(_megatron(), keeps_dummy_gradients=False, has_second_workspace=False)


def _nanotron() -> Habits:
    """What its program says; the rest was fitted (``fitted_habits``)."""
    return Habits(
        weight_bytes=2, compute_weight_bytes=2, gradient_bytes=4, has_master_weights=True,
        keeps_joint_qkv=True, keeps_gate=True, balances_stages=True,
        source="nanotron: models/llama.py, optim/gradient_accumulator.py, optim/zero.py",
        **fitted_habits("nanotron"),
    )  # fmt: skip


def _deepspeed() -> Habits:
    return Habits(
        weight_bytes=2, compute_weight_bytes=2, gradient_bytes=4, local_gradient_bytes=2,
        has_master_weights=True, vocabulary_multiple=128,
        source="DeepSpeed: runtime/bf16_optimizer.py; Rajbhandari et al.: ZeRO, SC 2020, section 3.1",
    )  # fmt: skip


def _deepspeed_fp16() -> Habits:
    """Gradients stay in fp16: those of autograd, and what is summed of them."""
    return replace(
        _deepspeed(), gradient_bytes=2, source="DeepSpeed: runtime/zero/stage_1_and_2.py; ZeRO, section 3.1"
    )


def _fsdp() -> Habits:
    return Habits(
        weight_bytes=4, compute_weight_bytes=2, gradient_bytes=4,
        source="PyTorch: torch.distributed.fsdp.fully_shard with a MixedPrecisionPolicy",
    )  # fmt: skip
