"""How a training is spread over devices."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.errors import PlanError, UnknownNameError

RECOMPUTE = ("none", "selective", "full")
SCHEDULES = ("1f1b", "gpipe", "interleaved", "zero_bubble")
OFFLOAD = ("none", "optimizer", "parameters", "activations")
_DEGREES = {
    "data_parallel": "dp", "tensor_parallel": "tp", "pipeline_parallel": "pp", "context_parallel": "cp",
    "expert_parallel": "ep", "expert_tensor_parallel": "etp", "virtual_stages_per_rank": "vp",
    "micro_batch_size": "micro-batch size", "num_micro_batches": "number of micro-batches",
}  # fmt: skip


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
        schedule: Of the pipeline.
        reshard_after_forward: With ZeRO 3, whether weights are given up between forward and backward.
        num_prefetched: With ZeRO 3, layers whose weights are gathered ahead.
        offload: What lives in the host's memory: 'none', 'optimizer', 'parameters' (and the optimizer
            state) or 'activations'.

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
    recompute: str = "none"
    schedule: str = "1f1b"
    reshard_after_forward: bool = True
    num_prefetched: int = 1
    offload: str = "none"

    def __post_init__(self) -> None:
        for name, key in _DEGREES.items():
            value = getattr(self, name)
            if value is not None and value < 1:
                raise PlanError(f"{key}={value}: must be at least 1")
        if self.zero_stage not in (0, 1, 2, 3):
            raise PlanError(f"zero={self.zero_stage}: must be 0, 1, 2 or 3")
        for kind, value, known in (
            ("recompute", self.recompute, RECOMPUTE),
            ("schedule", self.schedule, SCHEDULES),
            ("offload", self.offload, OFFLOAD),
        ):
            if value not in known:
                raise UnknownNameError(kind, value, known, f"Known: {', '.join(known)}.")
        if (self.schedule == "interleaved") != (self.virtual_stages_per_rank > 1):
            raise PlanError(
                f"schedule={self.schedule} with vp={self.virtual_stages_per_rank}: the interleaved schedule, "
                "and no other, has more than one virtual stage a rank"
            )
        expert_ranks = self.expert_parallel * self.tensor_parallel_of_experts
        if self.ranks_per_stage % expert_ranks:
            raise PlanError(
                f"dp={self.data_parallel} · cp={self.context_parallel} · tp={self.tensor_parallel} = "
                f"{self.ranks_per_stage} ranks are no multiple of ep={self.expert_parallel} · "
                f"etp={self.tensor_parallel_of_experts} = {expert_ranks}"
            )

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
    def num_expert_replicas(self) -> int:
        """Ranks that hold the same experts."""
        return self.ranks_per_stage // (self.expert_parallel * self.tensor_parallel_of_experts)

    @property
    def num_dense_replicas(self) -> int:
        """Ranks that hold the same dense weights: those over which ZeRO shards."""
        return self.data_parallel * self.context_parallel

    @property
    def global_batch_size(self) -> int:
        """Sequences of one step."""
        return self.micro_batch_size * self.num_micro_batches * self.data_parallel
