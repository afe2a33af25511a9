"""The profile of a framework: what it keeps, which kernels it runs, what its host costs, what it can run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

from perfcast.core.kernel import KernelFamily
from perfcast.core.machine.hardware import Device
from perfcast.core.plan import (
    ContextCommunication,
    Dispatch,
    Offload,
    RankOrder,
    Recompute,
    RecomputeModule,
    Schedule,
)
from perfcast.core.training import FlashVersion, TrainingDType
from perfcast.errors import PlanError

RopeKernels = Literal["fused", "complex", "halves"]
OptimizerKernels = Literal["fused", "foreach"]
DataParallelWrapper = Literal["torch_ddp", "megatron_ddp"]
Axis = Literal["tp", "pp", "cp", "ep"]
#: Whose kernels join attention over a sequence that context parallelism cuts.
ContextProgram = Literal["transformer_engine", "pytorch"]
#: What a selective recomputation computes again: the core of attention alone (Korthikanti et al., MLSys 2023,
#: section 5) or what modules are named instead (Megatron-LM: --recompute-modules), or all but every second
#: product, the core of attention and what is reduced and scattered (torchtitan:
#: distributed/activation_checkpoint.py, selective_ac_option "op").
SelectiveRecompute = Literal["attention_core", "operators"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryProfile:
    """What is kept per parameter and per activation, in one precision.

    Attributes:
        weight_bytes: Of a parameter as it is kept.
        compute_weight_bytes: Of a parameter as the forward reads it, where it is gathered or cast.
        gradient_bytes: Of the buffer in which gradients are summed over micro-batches.
        local_gradient_bytes: Of what autograd hands over and keeps beside that buffer, at the peak.
        bucket_bytes: Of buckets for the reduction of unsharded gradients among several replicas.
        sent_gradient_bytes: Of a gradient in the buffer from which ZeRO 3 scatters it.
        shards_ends_apart: Whether ZeRO 3 gathers the embedding and the head each for itself: the embedding is
            given up behind its forward, and the larger of layer and head is the most that is on its way.
        has_master_weights: Whether the optimizer keeps fp32 copies.
        keeps_dummy_gradients: Whether an empty gradient for each shape of matrix stays allocated.
        softmax_bytes: Of what the loss makes of a logit, beside the logit, unless it is fused.
        keeps_joint_qkv: Whether queries keep the joint projection alive, and keys and values are a copy.
        keeps_gate: Whether the gate's activation is kept beside the product with it.
        keeps_steps_of_norms: Whether RMS norms run in steps, whose input in fp32 and rows before the weight
            are kept.
        further_width: Further elements per token and layer, in hidden sizes, found by measuring.
        tensors_issued_ahead: Unsharded tensors of asynchronous collectives that wait for the device, since
            the host runs ahead of it; of tokens × hidden size, with tensor parallelism and no pipeline.
        keeps_unread_products: Whether a selective recomputation by operators keeps products that no backward
            reads.
        receives_all_micro_batches: Whether a stage of a pipeline keeps a buffer for what it receives of each
            micro-batch of a step, of activations and of gradients, rather than of those on their way.
        moment_bytes: Of each of the optimizer's moments of an element.
        narrows_activations: Whether with products in fp8 inputs of activation functions are kept in it, and
            the output of attention once.
        has_second_workspace: Whether a second library keeps a workspace for its products.
        other_bytes: Of small buffers that stay, found by measuring.
        assumption: Of the closed form, in words; '' where there is none.
        source: Where this is written down.
    """

    weight_bytes: float
    compute_weight_bytes: int
    gradient_bytes: float
    local_gradient_bytes: float = 0.0
    bucket_bytes: float = 0.0
    sent_gradient_bytes: float = 2.0
    shards_ends_apart: bool = False
    has_master_weights: bool
    keeps_dummy_gradients: bool
    softmax_bytes: float
    keeps_joint_qkv: bool
    keeps_gate: bool
    keeps_steps_of_norms: bool = False
    further_width: float = 0.0
    tensors_issued_ahead: float = 0.0
    keeps_unread_products: bool = True
    receives_all_micro_batches: bool = False
    moment_bytes: float = 4.0
    narrows_activations: bool = False
    has_second_workspace: bool
    other_bytes: float = 0.0
    assumption: str = ""
    source: str

    def in_one_format(self) -> MemoryProfile:
        """In fp32 and tf32 there is one copy of everything, of four bytes."""
        return replace(
            self,
            weight_bytes=4.0,
            compute_weight_bytes=4,
            gradient_bytes=4.0,
            local_gradient_bytes=0.0,
            bucket_bytes=4.0 if self.bucket_bytes else 0.0,
            sent_gradient_bytes=4.0,
            has_master_weights=False,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelProfile:
    """Which kernels and collectives are run for one and the same mathematics.

    Attributes:
        fuses_residual: Whether bias, dropout and the sum with the residual are one kernel.
        fuses_activation: Whether bias and activation, or gate and activation, are one kernel.
        joins_projections: Whether one product makes queries, keys and values, and one gate and up.
        rope: How queries are rotated, and keys: 'fused' (one kernel), 'complex' (a cast, a complex product
            and a cast back) or 'halves' (products with cosine and sine, a swap of halves and a sum).
        fuses_scores: Whether scale, mask and softmax of unfused attention are one kernel.
        fuses_norm: Whether an RMS norm is one kernel (a layer norm always is).
        fuses_accumulation: Whether the product that makes a weight's gradient adds to the buffer;
            ``fuses_narrow_accumulation``: also where gradients are summed in half precision.
        has_gradient_buffer: Whether gradients are summed in a buffer beside those of autograd.
        copies_heads: Whether queries, keys and values are copied out of their joint projection, and keys
            and values joined and laid out anew behind that.
        keeps_residual_in_fp32: Whether the residual stream has four bytes an element (autocast).
        casts_weights: Whether fp32 weights are cast for each forward, and gradients back.
        overlaps_input_gradient: Whether the reduction of the input's gradient runs beside the product of
            the weight's, and the gather of its input beside that of the input's gradient.
        gathers_again: Whether the backward gathers the sequence-parallel input of a column-parallel layer.
        stops_recompute_early: Whether recomputing a layer ends before its last product.
        cuts_vocabulary: Whether the loss is computed in steps over a cut vocabulary, in fp32.
        shards_gradients: Whether gradients are summed over micro-batches after they are scattered.
        overlaps_gradients: Whether the program can reduce gradients beside the backward.
        overlaps_weights: Whether it can gather weights beside the compute.
        keeps_wide_gradients: Whether gradients are summed and reduced in fp32, but in training in fp16.
        keeps_half_weights: Whether weights are kept in half precision beside fp32 copies.
        optimizer_kernels: 'fused' (one pass) or 'foreach' (one pass for each step of the formula).
        scales_gradients: Whether clipping multiplies all gradients, whatever their norm.
        message_launches: Launches' worth of the host's work for the messages of one pass of a pipeline stage:
            the engine's instructions and metadata.
        bucket_parameters: Parameters that are exchanged at once, at least; 0 where no number is set.
        bucket_parameters_per_replica: As many for each replica, where that is more.
        bucket_bytes: Bytes that are exchanged at once, where they and not parameters are counted.
        dispatch: How tokens reach their experts where a plan does not say.
        waits_for_counts: Whether the host reads back how many tokens each expert has, where none are dropped.
        context_program: Whose attention runs over a cut sequence.
        flash_version: Of fused attention, the generation that the program calls; None: the newest that a
            device has.
        wrapper: What reduces the gradients of a captured module.
        source: Where this is written down.
    """

    fuses_residual: bool
    fuses_activation: bool
    joins_projections: bool
    rope: RopeKernels
    fuses_scores: bool
    fuses_norm: bool
    fuses_accumulation: bool
    fuses_narrow_accumulation: bool
    has_gradient_buffer: bool
    copies_heads: bool
    keeps_residual_in_fp32: bool
    casts_weights: bool
    overlaps_input_gradient: bool
    gathers_again: bool
    stops_recompute_early: bool
    cuts_vocabulary: bool
    shards_gradients: bool
    overlaps_gradients: bool
    overlaps_weights: bool
    keeps_wide_gradients: bool
    keeps_half_weights: bool
    optimizer_kernels: OptimizerKernels
    scales_gradients: bool
    message_launches: int = 0
    bucket_parameters: float = 0.0
    bucket_parameters_per_replica: float = 0.0
    bucket_bytes: float = 0.0
    dispatch: Dispatch = "alltoall"
    waits_for_counts: bool = True
    context_program: ContextProgram = "transformer_engine"
    flash_version: FlashVersion | None = None
    wrapper: DataParallelWrapper
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostProfile:
    """What the host costs in a training step.

    Attributes:
        launch_seconds: From one launch to the next.
        fixed_seconds: Of every step, whatever its size.
        waits_for_messages: Schedules of a pipeline in which the host waits for every message, and so begins
            to issue a pass when the pass may begin.
        source: Of the time between launches.
    """

    launch_seconds: float
    fixed_seconds: float = 0.0
    waits_for_messages: tuple[Schedule, ...] = ()
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportProfile:
    """Which plans the program can run; ``obstacles`` says of a plan what is in the way.

    Attributes:
        axes: What it cuts a model along, beside data parallelism.
        cuts_inputs: Whether it has 2-D tensor parallelism.
        zero_stages: What it shards, 0 included.
        recommended_zero_stages: Of those, what may be recommended: its memory is known. A stage that the
            framework does not have itself is run by another (``choice.framework_instead``).
        sharded_pipelines: Whether ZeRO 2 and 3 go with pipeline stages.
        hybrid_zero_stages: Stages in which it can shard over a part of the replicas.
        schedules, recomputes, offloads, orders, context_communications: As in ``core.plan``.
        names_modules: Whether a plan can say which modules selective recomputation makes again.
        recomputes_some_layers: Whether full recomputation can be of some layers only.
        keeps_gathered_weights: Whether ZeRO 3 can keep weights from forward to backward.
        least_prefetched, most_prefetched: Layers whose weights ZeRO 3 gathers ahead; None: any number.
        sets_buckets: Whether the size of buckets of gradients can be set.
        sets_overlaps: Whether collectives can be kept from overlapping with compute.
        dispatches: How it can bring tokens to experts.
        sets_experts: Whether capacity and the overlaps of experts can be set.
        narrow_formats: Formats of fewer than 16 bits that it trains in.
    has_adapters: Whether low-rank adapters can be trained beside a frozen model.
    has_four_bit_weights: Whether that model can be kept in four bits.
        reasons: Behind what it cannot do, in words, by 'zero=1', 'order' and the like.
        source: Where this is written down.
    """

    axes: tuple[Axis, ...]
    cuts_inputs: bool
    zero_stages: tuple[int, ...]
    recommended_zero_stages: tuple[int, ...]
    sharded_pipelines: bool
    hybrid_zero_stages: tuple[int, ...]
    schedules: tuple[Schedule, ...]
    recomputes: tuple[Recompute, ...]
    offloads: tuple[Offload, ...]
    orders: tuple[RankOrder, ...]
    context_communications: tuple[ContextCommunication, ...]
    recomputes_some_layers: bool
    keeps_gathered_weights: bool
    least_prefetched: int
    most_prefetched: int | None = None
    sets_buckets: bool
    sets_overlaps: bool
    sets_experts: bool
    names_modules: bool = False
    dispatches: tuple[Dispatch, ...] = ("alltoall",)
    narrow_formats: tuple[str, ...] = ()
    has_adapters: bool = False
    has_four_bit_weights: bool = False
    reasons: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTokens:
    """How many tokens a serving program reads in one step, by the device.

    Attributes:
        least_memory_bytes: Of devices that it is of.
        tokens: At most, of prompts and answers together.
        but_not: Devices with this in their name keep to the row before; '' for none.
    """

    least_memory_bytes: float
    tokens: int
    but_not: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedAllReduce:
    """Sums over ranks that take the norm behind them along, of so many bytes at most.

    Attributes:
        architecture: Of devices; '' for all.
        ranks: That sum, at most.
    """

    architecture: str
    ranks: int
    largest_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceProfile:
    """Whose measured kernels stand for those that it runs in inference, and how they are launched.

    Attributes:
        kernels: Frameworks of measured tables, by family of kernels; a family that is not named has the
            framework's own.
        replays_graphs: Whether kernels are replayed as CUDA graphs, without a host that issues each.
        narrow_caches: Formats of products beside which keys and values are kept in fp8 unless it is said
            otherwise; beside all others in the type of the activations.
        attends_in_cache_format: Whether prompts attend in fp8 where products and cache are narrow.
        fuses_quantisation: Whether norms and activations quantise what the product behind them reads.
        attention_rotates: Whether its call of attention also rotates queries and keys and writes the cache,
            and was timed with that.
        experts_route: Whether its call of experts takes what the router gives, and was timed with the
            choice of experts.
        reads_peers: Whether it has all-reduces of its own, which read the other ranks' memory.
        gathers_tokens: Whether all tokens go to all ranks among which experts are spread, and partial sums
            back by reduce-scatter, unless asked for something else; else copies go to experts or places.
        sends_beyond_choices: Whether it sends copies all the same to more ranks than a token has experts.
        tokens_beside_shared: Tokens of a step of decoding up to which experts that all tokens visit run on a
            stream beside the others, which take longer; 0: never.
        gathers_narrow: Whether tokens are quantised before they are gathered.
        fused_all_reduces: Which of those also add the residual and take the norm behind it while decoding.
        step_tokens: Of devices with rising memory; empty where all prompts are read at once.
        source: Where this is written down.
    """

    kernels: Mapping[KernelFamily, str]
    replays_graphs: bool
    narrow_caches: tuple[str, ...] = ()
    attends_in_cache_format: bool = False
    fuses_quantisation: bool = False
    attention_rotates: bool = False
    experts_route: bool = False
    reads_peers: bool = False
    gathers_tokens: bool = False
    sends_beyond_choices: bool = False
    gathers_narrow: bool = False
    tokens_beside_shared: int = 0
    fused_all_reduces: tuple[FusedAllReduce, ...] = ()
    step_tokens: tuple[StepTokens, ...] = ()
    source: str

    def on_device(self, device: Device) -> InferenceProfile:
        """What of it such a device has."""
        fused = [row for row in self.fused_all_reduces if row.architecture in ("", device.architecture)]
        return replace(self, fused_all_reduces=tuple(fused))

    def fuses_all_reduce(self, ranks: int, message_bytes: float) -> bool:
        """Whether a sum over ranks takes the norm behind it along."""
        found = [row for row in self.fused_all_reduces if ranks <= row.ranks]
        return bool(found) and message_bytes <= found[0].largest_bytes

    def most_step_tokens(self, device: Device | None) -> int | None:
        """Tokens of one step on a device, on the largest where none is named; None: whatever is asked."""
        found = [
            row.tokens
            for row in self.step_tokens
            if device is None
            or (
                device.memory_bytes >= row.least_memory_bytes
                and not (row.but_not and row.but_not in device.name)
            )
        ]
        return found[-1] if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingProfile:
    """What a framework does when it trains.

    Attributes:
        vocabulary_multiple: What the vocabulary is padded to a multiple of, times the tensor parallelism.
        balances_stages: Whether the head counts when layers are dealt out to stages.
        selective: What ``recompute=selective`` computes again.
        recompute_modules: What it computes again where it means modules and the plan names none.
        always_recomputes: Modules that it computes again whatever the plan says.
        sums_whole_gradients_in_pipelines: Whether the stages of a pipeline with ZeRO 2 or 3 sum whole
            gradients over their micro-batches, in the format in which they are sent, and scatter them once.
        memory: In mixed precision; None for plain PyTorch, whose modules have a closed form of their own.
        memory_in_fp16: In fp16, where that is kept otherwise.
        compiled: The same with torch.compile; None where it has nothing to fuse.
    """

    vocabulary_multiple: int
    balances_stages: bool
    selective: SelectiveRecompute
    recompute_modules: tuple[RecomputeModule, ...] = ("core_attn",)
    always_recomputes: tuple[RecomputeModule, ...] = ()
    sums_whole_gradients_in_pipelines: bool
    kernels: KernelProfile
    host: HostProfile
    support: SupportProfile
    memory: MemoryProfile | None = None
    memory_in_fp16: MemoryProfile | None = None
    compiled: TrainingProfile | None = None

    def memory_of(self, dtype: TrainingDType) -> MemoryProfile:
        """What is kept in a precision.

        Raises:
            PlanError: Plain PyTorch, which is described elsewhere.
        """
        if self.memory is None:
            raise PlanError("plain PyTorch has a closed form of its own: estimate_footprint takes it")
        if dtype in ("fp32", "tf32"):
            return self.memory.in_one_format()
        return self.memory_in_fp16 or self.memory if dtype == "fp16" else self.memory


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkProfile:
    """One framework.

    Attributes:
        name: As in ``core.training.FRAMEWORKS``, or of a program that serves or runs another's kernels.
        title: As its authors write it.
        like: Another of which this one says only what differs; '' where it stands alone.
        training, inference: None where nothing is known of it.
    """

    name: str
    title: str
    like: str = ""
    training: TrainingProfile | None = None
    inference: InferenceProfile | None = None
