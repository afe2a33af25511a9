"""What one rank's layer depends on, with the sizes that follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfcast.core.dtype import DType
from perfcast.core.model.heads import Heads, heads_of_rank
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.plans.placement import group_of
from perfcast.core.training import Training, check_trainable
from perfcast.core.tuning.trained import Part
from perfcast.core.tuning.weights import Adapter, layer_adapters, part_of_module
from perfcast.frameworks.load import load_training_profile, training_profile_of
from perfcast.frameworks.profile import KernelProfile, TrainingProfile

#: Behind the module of a linear layer, that of its adapter.
ADAPTER = ".adapter"


def weight_type(training: Training) -> DType:
    """Of weights as the products read them; where those are in fp8, of what is cast to it."""
    return training.precision.element


def gradient_type(training: Training) -> DType:
    """Of gradients as they are summed over micro-batches, and reduced.

    With fp16 they stay in it, behind a scaled loss (Megatron-LM: --accumulate-allreduce-grads-in-fp32 is set
    for bf16 alone), but with autocast, whose weights are in fp32.
    """
    profile = load_training_profile(training.framework).kernels
    stays_narrow = training.dtype == "fp16" and not profile.casts_weights
    return DType.FP32 if profile.keeps_wide_gradients and not stays_narrow else weight_type(training)


@dataclass(frozen=True, slots=True)
class Local:
    """A model, cut by a plan, as one rank computes it for one micro-batch.

    Attributes:
        plan: Without what layers do not depend on (``local_part``), so that equal layers are built once.
        has_window: Whether the attention of this layer looks back over a window only.
        is_frozen: Whether this layer is one of a frozen row.
    """

    model: Transformer
    plan: Plan
    training: Training
    sequence_length: int
    has_window: bool = False
    is_frozen: bool = False

    def __post_init__(self) -> None:
        check_trainable(self.model)

    @property
    def framework(self) -> TrainingProfile:
        """Whose program runs."""
        return training_profile_of(self.training)

    @property
    def profile(self) -> KernelProfile:
        """Which kernels it runs."""
        return self.framework.kernels

    @property
    def fuses_accumulation(self) -> bool:
        """Whether the product that makes a weight's gradient adds to what earlier micro-batches left."""
        fuses_narrow = self.profile.fuses_narrow_accumulation
        return self.profile.fuses_accumulation and (fuses_narrow or self.gradient is DType.FP32)

    @property
    def sequence(self) -> int:
        """Tokens of one sequence on this rank, before tensor parallelism: s / cp."""
        return -(-self.sequence_length // self.plan.context_parallel)

    @property
    def tokens(self) -> int:
        """Rows of the products: b · s / cp."""
        return self.plan.micro_batch_size * self.sequence

    @property
    def own_tokens(self) -> int:
        """Rows outside the tensor-parallel region: b · s / cp / tp with sequence parallelism."""
        if not self.plan.sequence_parallel:
            return self.tokens
        return -(-self.tokens // self.plan.tensor_parallel)

    @property
    def hidden(self) -> int:
        """Elements of a token in the residual stream."""
        return self.model.hidden_size

    @property
    def own_hidden(self) -> int:
        """The part of them on this rank: all, but with 2-D tensor parallelism."""
        return self.model.hidden_size // self.plan.tensor_parallel_inputs

    @property
    def heads(self) -> Heads:
        """Heads of attention on this rank."""
        return heads_of_rank(self.model, self.plan.tensor_parallel)

    @property
    def window(self) -> int:
        """Tokens that a query of this layer looks back; 0: all."""
        return self.model.sliding_window if self.has_window else 0

    @property
    def element(self) -> DType:
        """Of activations."""
        return weight_type(self.training)

    @property
    def gradient(self) -> DType:
        """Of gradients as they are summed."""
        return gradient_type(self.training)

    @property
    def residual(self) -> DType:
        """Of the residual stream; frozen weights in the products' format make one of that."""
        is_wide = self.profile.keeps_residual_in_fp32 and self.training.tuning.adapters is None
        return DType.FP32 if is_wide else self.element

    @property
    def casts_weights(self) -> bool:
        """Whether the model's own weights are kept in fp32 and cast for each forward."""
        return self.profile.casts_weights and self.training.tuning.adapters is None

    def trains(self, part: Part) -> bool:
        """Whether the model's own weights of a part train in this layer."""
        return not self.is_frozen and self.training.tuning.trains(part)

    def trains_module(self, module: str) -> bool:
        """Whether the weights that kernels of a module read train; those of an adapter do."""
        return module.endswith(ADAPTER) or self.trains(part_of_module(module))

    def widens_module(self, module: str) -> bool:
        """Whether the weights that a product of a module reads are kept in four bits."""
        if not self.training.tuning.is_quantised or module.endswith(ADAPTER):
            return False
        return part_of_module(module) in ("attention", "mlp", "experts")

    def adapters_of(self, module: str) -> tuple[Adapter, ...]:
        """Adapters beside the linear layers of a module."""
        if self.training.tuning.adapters is None:
            return ()
        found = layer_adapters(
            self.model,
            self.plan,
            self.training.tuning.adapters,
            has_experts=module.startswith("shared"),
            joins_projections=self.profile.joins_projections,
        )
        return tuple(adapter for adapter in found if adapter.module == module)

    @property
    def is_fused_attention(self) -> bool:
        """Whether one kernel computes attention, without the matrix of scores."""
        return self.training.attention == "flash" and self.model.has_fused_attention

    @property
    def precision(self) -> DType:
        """Of the products' arithmetic."""
        return self.training.precision.products.arithmetic

    @property
    def is_narrow(self) -> bool:
        """Whether products are quantised between wider tensors."""
        return self.training.precision.products.is_narrow

    @property
    def tensor_ranks(self) -> Sequence[int]:
        """The tensor-parallel group of rank 0."""
        return group_of(self.plan, "tensor")

    @property
    def has_mlp_bias(self) -> bool:
        """Whether the MLP's products have biases."""
        return self.model.has_linear_bias if self.model.has_mlp_bias is None else self.model.has_mlp_bias


def local_part(plan: Plan) -> Plan:
    """The plan without what changes no layer's kernels: degrees stay, since they place the groups."""
    return replace(
        plan, virtual_stages_per_rank=1, schedule="1f1b", zero_stage=0, stage_layers=(), num_shards=None,
        num_micro_batches=min(plan.num_micro_batches, 2), reshard_after_forward=True, num_prefetched=1,
        bucket_bytes=None, overlaps_gradients=True, overlaps_weights=True, offload="none",
        recompute_layers=None,
    )  # fmt: skip
