"""What ``perfcast predict`` is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from perfcast.core.machine.cluster import Cluster
from perfcast.ranges import DEVICES
from perfcast.verbs.question import FILE, within
from perfcast.verbs.shared.run import RunQuestion
from perfcast.verbs.shared.step import StepQuestion

if TYPE_CHECKING:
    from perfcast.cost.model import CostModel


@dataclass(frozen=True, kw_only=True)
class PredictQuestion(RunQuestion, StepQuestion):
    """Time and memory of one step of a model, on one device or under a plan over many.

    Attributes:
        cluster: Devices and their links; see 'perfcast catalog clusters'.
        cost_model: learned (default), roofline, linear (default for cpu), or a published one.
        framework: Whose program runs. Training: pytorch (the model's own modules), fsdp, megatron, …;
            default: what the plan suggests, on one device pytorch. Inference: vllm (default of models that
            generate), sglang, trtllm, pytorch.
        weights: Trained models for learned; default: the shipped ones.
        world_size: Ranks of a parallel FILE.py:FUNCTION; sizes are one rank's.
        closed_form: Under a plan: formulas of the pipeline, not its events.
        stragglers: Under a plan: how ranks differ, such as lognormal:0.02.
        host: Processor that issues the kernels of one device: fast, slow, or one such as epyc-7742;
            default: what machines with the device usually have.
        cuda_graphs: One device: the step is replayed as one CUDA graph.
    """

    verb: ClassVar[str] = "predict"

    cluster: str | Cluster | None = field(default=None, metadata=FILE)
    cost_model: str | CostModel | None = None
    framework: str | None = None
    weights: str | None = field(default=None, metadata=FILE)
    world_size: int | None = field(default=None, metadata=within(DEVICES))
    closed_form: bool = False
    stragglers: str | None = None
    host: str | None = None
    cuda_graphs: bool = False
