"""How a training is spread over devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from perfcast.core.words import known_word
from perfcast.errors import PlanError
from perfcast.ranges import BATCH, DEVICES, excerpt
from perfcast.units import MEGA, PETA

Recompute = Literal["none", "selective", "full"]
#: Parts of a layer that a selective recomputation makes again, by Megatron-LM's names (--recompute-modules).
RecomputeModule = Literal["core_attn", "layernorm", "mla_up_proj", "moe_act", "shared_experts", "mlp", "moe"]
Schedule = Literal["1f1b", "gpipe", "interleaved", "zero_bubble", "dualpipe"]
Offload = Literal["none", "optimizer", "parameters", "activations"]
ContextCommunication = Literal["ring", "ulysses", "all_gather"]
#: How tokens reach their experts: a copy for each expert ('alltoall'), all tokens to all ('allgather'), or a
#: copy for each rank, over the network one for each node ('deepep'; 'deepep_fp8': in a byte on their way in).
Dispatch = Literal["alltoall", "allgather", "deepep", "deepep_fp8"]
#: Axes of the ranks, the innermost first; experts cut what the others span together.
RankOrder = Literal["tp-cp-dp-pp", "tp-cp-pp-dp", "tp-pp-cp-dp", "cp-tp-dp-pp", "dp-cp-tp-pp", "pp-tp-cp-dp"]

RECOMPUTE_MODULES: tuple[RecomputeModule, ...] = get_args(RecomputeModule)
RECOMPUTE: tuple[Recompute, ...] = get_args(Recompute)
SCHEDULES: tuple[Schedule, ...] = get_args(Schedule)
OFFLOAD: tuple[Offload, ...] = get_args(Offload)
CONTEXT_COMMUNICATION: tuple[ContextCommunication, ...] = get_args(ContextCommunication)
DISPATCHES: tuple[Dispatch, ...] = get_args(Dispatch)
ORDERS: tuple[RankOrder, ...] = get_args(RankOrder)
_DEGREES = {
    "data_parallel": "dp",
    "tensor_parallel": "tp",
    "pipeline_parallel": "pp",
    "context_parallel": "cp",
    "expert_parallel": "ep",
    "expert_tensor_parallel": "etp",
    "virtual_stages_per_rank": "vp",
    "micro_batch_size": "micro-batch size",
    "num_micro_batches": "number of micro-batches",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Degrees of parallelism, and what is sharded, recomputed or moved away.

    Experts live on the same ranks as everything else: their own groups cut the ranks of one stage, data ×
    context × tensor of them, into expert × expert-tensor × the rest (replicas of the experts).

    Attributes:
        micro_batch_size: Sequences of one forward on one data-parallel replica.
        num_micro_batches: Of one step, on each replica (gradient accumulation).
        virtual_stages_per_rank: Chunks of layers that a pipeline rank holds (interleaved schedule).
        zero_stage: What data parallelism shards: 0 nothing, 1 optimizer state, 2 gradients too,
            3 weights too (FSDP).
        sequence_parallel: Norms and dropout cut along the sequence over the tensor-parallel ranks.
        recompute: 'none', 'selective' (the core of attention) or 'full' (every layer).
        recompute_layers: With 'full' recomputation, the first so many layers of every part of the model (a
            stage or a virtual one) alone; the others keep all. None: every layer.
        recompute_modules: With 'selective' recomputation, what is made again; empty: what the framework does.
        schedule: Of the pipeline.
        reshard_after_forward: With ZeRO 3, whether weights are given up between forward and backward.
        num_prefetched: With ZeRO 3, layers whose weights are gathered ahead.
        offload: What lives in the host's memory: 'none', 'optimizer', 'parameters' (and the optimizer
            state) or 'activations'.
        order: How the axes lie in the ranks, the innermost first.
        stage_layers: Layers of each part of the model, in its order: of each stage, or of each virtual one;
            empty splits as the framework does.
        context_communication: How attention sees the whole sequence: keys and values travel around a 'ring',
            heads are traded for sequence ('ulysses'), or keys and values are gathered ('all_gather').
        num_shards: Ranks over which ZeRO shards, the other replicas hold copies (hybrid sharding); None: all.
        tensor_parallel_inputs: Of the tensor-parallel degree, what cuts the inputs of matrices (2-D tensor
            parallelism); the rest cuts their outputs. 1: Megatron's columns and rows.
        overlaps_tensor: Whether tensor-parallel communication runs beside the products that they feed.
        overlaps_gradients, overlaps_weights: Whether gradients are reduced beside the backward, and sharded
            weights gathered beside the compute before them.
        overlaps_experts: Whether tokens travel between experts beside another micro-batch's opposite pass
            (Megatron-LM: --overlap-moe-expert-parallel-comm); DualPipe does so by itself.
        overlaps_shared_experts: Whether shared experts run beside the dispatch of tokens to others.
        bucket_bytes: Of gradients that are reduced together; None: the framework's.
        capacity_factor: Tokens that an expert takes at most, over the mean; None takes all.
        expert_imbalance: Tokens of the busiest rank's experts over the mean.
        dispatch: How tokens reach their experts; None: as the framework does.

    Raises:
        PlanError: A degree below 1, groups that do not divide; the message states the equation.
    """

    data_parallel: int = 1
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    context_parallel: int = 1
    expert_parallel: int = 1
    expert_tensor_parallel: int | None = None
    virtual_stages_per_rank: int = 1
    micro_batch_size: int = 1
    num_micro_batches: int = 1
    zero_stage: int = 0
    sequence_parallel: bool = False
    recompute: Recompute = "none"
    recompute_layers: int | None = None
    recompute_modules: tuple[RecomputeModule, ...] = ()
    schedule: Schedule = "1f1b"
    reshard_after_forward: bool = True
    num_prefetched: int = 1
    offload: Offload = "none"
    order: RankOrder = "tp-cp-dp-pp"
    stage_layers: tuple[int, ...] = ()
    context_communication: ContextCommunication = "ring"
    num_shards: int | None = None
    tensor_parallel_inputs: int = 1
    overlaps_tensor: bool = False
    overlaps_gradients: bool = True
    overlaps_weights: bool = True
    overlaps_experts: bool = False
    overlaps_shared_experts: bool = False
    bucket_bytes: int | None = None
    capacity_factor: float | None = None
    expert_imbalance: float = 1.0
    dispatch: Dispatch | None = None

    def __post_init__(self) -> None:
        for name, key in _DEGREES.items():
            value = getattr(self, name)
            if value is not None and value < 1:
                raise PlanError(f"{key}={excerpt(value)}: must be at least 1")
            if value is not None:
                BATCH.check(f"{key}:", value, PlanError)
        DEVICES.check("devices of the plan:", self.world_size, PlanError)
        BATCH.check("batch of the plan:", self.global_batch_size, PlanError)
        if self.zero_stage not in (0, 1, 2, 3):
            raise PlanError(f"zero={self.zero_stage}: must be 0, 1, 2 or 3")
        known_word("recompute", self.recompute, RECOMPUTE)
        for module in self.recompute_modules:
            known_word("module to recompute", module, RECOMPUTE_MODULES)
        known_word("schedule", self.schedule, SCHEDULES)
        known_word("offload", self.offload, OFFLOAD)
        known_word("order of the ranks", self.order, ORDERS)
        if self.dispatch is not None:
            known_word("dispatch", self.dispatch, DISPATCHES)
        known_word("context communication", self.context_communication, CONTEXT_COMMUNICATION)
        if (self.schedule == "interleaved") != (self.virtual_stages_per_rank > 1):
            raise PlanError(
                f"schedule={self.schedule} with vp={self.virtual_stages_per_rank}: the interleaved schedule, "
                "and no other, has more than one virtual stage a rank"
            )
        self._check_cuts()
        self._check_recomputation()
        expert_ranks = self.expert_parallel * self.tensor_parallel_of_experts
        if self.ranks_per_stage % expert_ranks:
            raise PlanError(
                f"dp={self.data_parallel} · cp={self.context_parallel} · tp={self.tensor_parallel} = "
                f"{self.ranks_per_stage} ranks are no multiple of ep={self.expert_parallel} · "
                f"etp={self.tensor_parallel_of_experts} = {expert_ranks}"
            )

    def _check_cuts(self) -> None:
        """What does not divide."""
        shards, replicas, inputs = self.num_shards, self.num_dense_replicas, self.tensor_parallel_inputs
        if shards is not None and (shards < 1 or replicas % shards):
            raise PlanError(f"shards={shards} does not divide dp · cp = {replicas} replicas")
        if inputs < 1 or self.tensor_parallel % inputs:
            raise PlanError(f"tp_inputs={inputs} does not divide tp={self.tensor_parallel}")
        parts = self.pipeline_parallel * self.virtual_stages_per_rank
        if self.stage_layers and len(self.stage_layers) not in (self.pipeline_parallel, parts):
            raise PlanError(
                f"layers of {len(self.stage_layers)} stages for pp={self.pipeline_parallel} · "
                f"vp={self.virtual_stages_per_rank} = {parts} parts of the model"
            )
        if any(not 0 <= count <= MEGA for count in self.stage_layers):
            raise PlanError(f"stages of {excerpt(self.stage_layers)} layers: none can have fewer than 0")
        if self.schedule == "dualpipe" and self.pipeline_parallel % 2:
            raise PlanError(
                f"schedule=dualpipe needs an even number of stages, not pp={self.pipeline_parallel}"
            )
        if self.schedule == "dualpipe" and self.num_micro_batches % 2:
            raise PlanError(
                f"schedule=dualpipe needs an even number of micro-batches, not {self.num_micro_batches}"
            )
        self._check_factors()

    def _check_factors(self) -> None:
        """Numbers beside the degrees."""
        if self.capacity_factor is not None and not 0 < self.capacity_factor <= MEGA:
            raise PlanError(f"capacity={self.capacity_factor}: must be above 0, and at most a million")
        if not 1 <= self.expert_imbalance <= MEGA:
            raise PlanError(f"imbalance={self.expert_imbalance}: must be at least 1, and at most a million")
        if self.bucket_bytes is not None and not 1 <= self.bucket_bytes <= PETA:
            raise PlanError(f"bucket={self.bucket_bytes}: must be at least 1 byte, and at most a petabyte")
        if not 0 <= self.num_prefetched <= MEGA:
            raise PlanError(f"prefetch={self.num_prefetched}: layers ahead, at least 0 and at most a million")

    def _check_recomputation(self) -> None:
        if self.recompute_layers is None:
            return
        if self.recompute != "full":
            raise PlanError(
                f"recompute_layers={self.recompute_layers} with recompute={self.recompute}: it says how many "
                "layers are computed again in full; take recompute=full"
            )
        if self.recompute_layers < 1:
            raise PlanError(f"recompute_layers={self.recompute_layers}: must be at least 1")

    @property
    def num_passes(self) -> int:
        """Micro-batches through stages: what a step played event by event consists of."""
        return self.num_micro_batches * self.pipeline_parallel * self.virtual_stages_per_rank

    @property
    def overlaps_passes(self) -> bool:
        """Whether a forward and another micro-batch's backward hide each other's dispatches."""
        takes_turns = self.schedule in ("1f1b", "interleaved") and self.num_micro_batches > 1
        return self.overlaps_experts and takes_turns and self.expert_parallel > 1

    @property
    def ranks_per_stage(self) -> int:
        """Devices of one pipeline stage."""
        return self.data_parallel * self.context_parallel * self.tensor_parallel

    @property
    def world_size(self) -> int:
        """Devices of the whole plan."""
        return self.ranks_per_stage * self.pipeline_parallel

    @property
    def tensor_parallel_of_experts(self) -> int:
        """Tensor-parallel degree inside an expert; 1 where experts are spread and none is stated."""
        if self.expert_tensor_parallel is not None:
            return self.expert_tensor_parallel
        return self.tensor_parallel if self.expert_parallel == 1 else 1

    @property
    def expert_load(self) -> float:
        """Rows of the busiest rank's experts over the mean: the imbalance, or the buffers' size where it is
        fixed."""
        return self.expert_imbalance if self.capacity_factor is None else self.capacity_factor

    @property
    def num_expert_replicas(self) -> int:
        """Ranks that hold the same experts."""
        return self.ranks_per_stage // (self.expert_parallel * self.tensor_parallel_of_experts)

    @property
    def num_dense_replicas(self) -> int:
        """Ranks that hold the same dense weights: those over which ZeRO shards."""
        return self.data_parallel * self.context_parallel

    @property
    def shard_size(self) -> int:
        """Ranks over which ZeRO shards."""
        return self.num_shards or self.num_dense_replicas

    @property
    def global_batch_size(self) -> int:
        """Sequences of one step."""
        return self.micro_batch_size * self.num_micro_batches * self.data_parallel
