"""The result of a forecast of a step on many devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from perfcast.core.forecast.fit import Fit
from perfcast.core.forecast.footprint import PlanMemory
from perfcast.core.forecast.recommendation import BoundRecommendation
from perfcast.core.mode import Method, Mode
from perfcast.core.plan import Plan
from perfcast.core.program import StepProgram
from perfcast.core.training import Training

#: What the time of a rank goes to; their seconds add up to the step.
#: 'host' is waiting for the host's launches, 'straggler' for a slower rank of the same group, 'bubble' for
#: another stage; 'tensor' … 'pipeline' are exposed communication on those axes.
CAUSES = (
    "compute", "recompute", "optimizer", "tensor", "context", "expert", "data", "pipeline", "offload",
    "bubble", "host", "straggler", "other",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Span:
    """One piece of a rank's timeline: a layer, a kernel or a collective.

    Attributes:
        rank: Global rank that stands for all its equals.
        stream: A name of ``core.work.Stream``, or 'host'.
        cause: One of ``CAUSES``; what it counts as.
        on_critical_path: Whether the step would end earlier if this did.
    """

    rank: int
    stream: str
    label: str
    start_seconds: float
    end_seconds: float
    cause: str = "compute"
    micro_batch: int = -1
    on_critical_path: bool = False


@dataclass(frozen=True, slots=True)
class RankTime:
    """Time of one differing rank by cause.

    Attributes:
        rank: Global rank that stands for ``num_equal`` ranks.
        seconds_by_cause: They add up to the step.
    """

    rank: int
    stage: int
    num_equal: int
    seconds_by_cause: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class StragglerEffect:
    """The step when ranks differ in speed: over draws of every rank's slowdown.

    Attributes:
        distribution: In words.
        mean_seconds, p50_seconds, p95_seconds, p99_seconds: Of the step.
        num_draws: Steps that were drawn.
    """

    distribution: str
    mean_seconds: float
    p50_seconds: float
    p95_seconds: float
    p99_seconds: float
    num_draws: int


@dataclass(frozen=True)
class StepTime:
    """What a simulation or a closed form says of a step.

    Attributes:
        step_seconds: From its start until every rank is done.
        ranks: Every differing rank; the first is that with the most work of its own.
        spans: Timeline; empty where none was asked for.
        critical_path: Along the chain that decides the step, (label, seconds), longest first.
        num_events: Simulated operations; 0 for a closed form.
    """

    step_seconds: float
    ranks: tuple[RankTime, ...] = field(repr=False)
    spans: tuple[Span, ...] = field(default=(), repr=False)
    critical_path: tuple[tuple[str, float], ...] = field(default=(), repr=False)
    num_events: int = 0

    @property
    def seconds_by_cause(self) -> dict[str, float]:
        """Mean over all ranks; they add up to the step."""
        total = sum(rank.num_equal for rank in self.ranks)
        means: dict[str, float] = {}
        for cause in CAUSES:
            seconds = sum(r.num_equal * r.seconds_by_cause.get(cause, 0.0) for r in self.ranks) / total
            if seconds:
                means[cause] = seconds
        return means


@dataclass(frozen=True)
class PlanForecast:
    """Time and memory of one step under a plan.

    Attributes:
        method: 'closed_form' or 'simulated'.
        mode: 'train', 'prefill' or 'decode'.
        step_seconds_low, step_seconds_high: 90 % interval.
        plan: None for a parallel program of one's own, which says itself how it is spread.
        num_tokens: Of the step, over all devices (decode: one a sequence).
        flops, recompute_flops: Of the step, over all devices.
        peak_flops_per_second: Of one device in the forecast's precision.
        program: What runs.
        memory: None where no closed form of it is known.
        recommendations: What would help, most first.
        seconds_by_provenance: Of the compute, by what its prices rest on.
        defaults: What was chosen of precision and sequence, in words.
    """

    model: str
    cluster: str
    device: str
    num_devices: int
    mode: Mode
    method: Method
    plan: Plan | None
    training: Training | None
    dtype: str
    sequence_length: int
    cost_model: str
    time: StepTime
    step_seconds_low: float
    step_seconds_high: float
    num_tokens: int
    flops: int
    recompute_flops: int
    peak_flops_per_second: float
    parameter_count: int
    program: StepProgram = field(repr=False)
    memory: PlanMemory | None = None
    stragglers: StragglerEffect | None = None
    recommendations: tuple[BoundRecommendation, ...] = field(default=(), repr=False)
    seconds_by_provenance: Mapping[str, float] = field(default_factory=dict)
    assumptions: tuple[str, ...] = field(default=(), repr=False)
    defaults: tuple[str, ...] = ()

    @property
    def step_seconds(self) -> float:
        """Best estimate."""
        return self.time.step_seconds

    @property
    def fit(self) -> Fit | None:
        """Whether the devices' memory holds the step; None where no closed form of it is known."""
        return None if self.memory is None else self.memory.fit

    @property
    def fits(self) -> bool | None:
        """The same, by the best estimate."""
        return None if self.memory is None else self.memory.fits

    @property
    def num_sequences(self) -> int:
        """Sequences of one step, over all devices."""
        if self.plan is not None:
            return self.plan.global_batch_size
        return self.num_tokens // (1 if self.mode == "decode" else self.sequence_length)

    @property
    def tokens_per_second(self) -> float:
        """Over all devices."""
        return self.num_tokens / self.step_seconds

    @property
    def tokens_per_second_per_device(self) -> float:
        """Tokens that one device handles in a second."""
        return self.tokens_per_second / self.num_devices

    @property
    def mfu(self) -> float:
        """Model flops over what all devices could do in the step."""
        return self.flops / (self.step_seconds * self.peak_flops_per_second * self.num_devices)

    @property
    def hfu(self) -> float:
        """The same with recomputed flops counted."""
        whole = self.flops + self.recompute_flops
        return whole / (self.step_seconds * self.peak_flops_per_second * self.num_devices)
