"""What a search finds: plans with all their figures, best first, and how sure their order is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from perfcast.core.mode import Method
from perfcast.core.plan import Plan
from perfcast.core.plans.table import COLUMNS, to_table, with_splits
from perfcast.core.program import StepProgram
from perfcast.core.training import Training
from perfcast.errors import PlanError
from perfcast.prediction.request.command import predict_command
from perfcast.prediction.request.plan import PlanRequest
from perfcast.units import HOUR

if TYPE_CHECKING:
    from perfcast.searches.evaluation.evaluate import Evaluation


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedPlan:
    """One plan and its figures.

    Attributes:
        method: 'simulated' or 'closed_form'.
        step_seconds_low, step_seconds_high: 90 % interval.
        seconds_by_cause: Mean over all ranks; they add up to the step.
        num_tokens: Of a step, over all devices.
        peak_bytes, device_bytes: Allocated on the worst rank; with what the allocator and the driver hold.
        device_watts: Mean of a device with its share of the server; None where no rated power is known.
        dollars_per_device_hour: None without a price.
        value: Of the objective, in its own unit.
    """

    plan: Plan
    method: Method
    step_seconds: float
    step_seconds_low: float
    step_seconds_high: float
    seconds_by_cause: Mapping[str, float]
    num_tokens: int
    num_devices: int
    mfu: float
    peak_bytes: int
    device_bytes: int
    capacity_bytes: int
    device_watts: float | None
    dollars_per_device_hour: float | None
    value: float

    @property
    def tokens_per_second(self) -> float:
        """Of all devices."""
        return self.num_tokens / self.step_seconds

    @property
    def tokens_per_second_per_device(self) -> float:
        """Of one device."""
        return self.tokens_per_second / self.num_devices

    @property
    def dollars_per_token(self) -> float | None:
        """None without a price."""
        if self.dollars_per_device_hour is None:
            return None
        return self.dollars_per_device_hour / HOUR / self.tokens_per_second_per_device

    @property
    def joules_per_token(self) -> float | None:
        """Of devices and their servers; None where no rated power is known."""
        return None if self.device_watts is None else self.device_watts / self.tokens_per_second_per_device

    @property
    def headroom_bytes(self) -> int:
        """Memory of a device that is left."""
        return self.capacity_bytes - self.device_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Separation:
    """Two plans whose order is not sure, and what would make it so.

    Attributes:
        first, second: Places in ``SearchResult.ranked``, from 0.
        difference_seconds, difference_seconds_low, difference_seconds_high: Of the second's step over the
            first's, with its 90 % interval, in which what both share cancels.
        measurements: What to measure, the most telling first, in words.
    """

    first: int
    second: int
    difference_seconds: float
    difference_seconds_low: float
    difference_seconds_high: float
    measurements: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A plan of the kind of one that is ranked, folded behind it (``ranking.kinds``).

    Attributes:
        of: Place in ``SearchResult.ranked``, from 0.
        is_alike: Whether the interval cannot tell it from that one; by formula, whether it costs the same.
    """

    of: int
    plan: RankedPlan
    is_alike: bool


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """The plans of one model on one cluster.

    Attributes:
        asked_cluster, asked_cost_model: As a command line names them; None: the usual one.
        objective: A name of ``objectives.OBJECTIVES``.
        program: What the steps of all plans run.
        defaults: What was chosen of precision and sequence, in words.
        ranked: The best of each kind, as many as were asked for, best first.
        variants: Other plans of the kinds that are ranked, as far as they were weighed.
        front: Plans that none beats in time, cost and memory headroom at once, fastest first.
        separations: Of the first from each of the top that it cannot be told from.
        num_steps: Of the whole training; None where its tokens are not known.
        excluded: Plans that each constraint removed, by its words, in the order in which they were applied.
        num_plans, num_valid, num_simulated: Enumerated; that meet all constraints; simulated event by event.
        num_operations: Different ones that were priced.
        seconds_by_part: That the search took, by its part.
        evaluation: All valid plans, in columns.
    """

    model: str
    cluster: str
    device: str
    num_devices: int
    training: Training
    program: StepProgram
    sequence_length: int
    global_batch_size: int
    cost_model: str
    objective: str
    ranked: tuple[RankedPlan, ...]
    front: tuple[RankedPlan, ...]
    separations: tuple[Separation, ...]
    excluded: Mapping[str, int]
    num_plans: int
    num_valid: int
    num_simulated: int
    num_operations: int
    num_steps: int | None = None
    seconds_by_part: Mapping[str, float] = field(default_factory=dict)
    variants: tuple[Variant, ...] = ()
    asked_cluster: str = ""
    asked_cost_model: str | None = None
    evaluation: Evaluation
    assumptions: tuple[str, ...] = ()
    defaults: tuple[str, ...] = ()

    def place_of(self, plan: Plan) -> int | None:
        """Of a plan among the valid ones; None where it is not there."""
        plans = self.evaluation.plans
        if plan.stage_layers not in plans.splits:
            return None
        wanted = with_splits(to_table([plan]), plans.splits)
        same = np.logical_and.reduce([getattr(plans, name) == getattr(wanted, name) for name in COLUMNS])
        places = np.flatnonzero(same)
        return int(places[0]) if len(places) else None

    def formula_seconds(self, plan: Plan) -> float:
        """Of a valid plan's step by the closed form.

        Raises:
            PlanError: The plan is not among the valid ones.
        """
        place = self.place_of(plan)
        if place is None:
            raise PlanError("the plan is not among those that the search left")
        return float(self.evaluation.step_seconds[place])

    def command(self, plan: RankedPlan) -> str:
        """The ``perfcast predict`` that forecasts a plan with the same time and memory."""
        request = PlanRequest(
            model=self.model,
            cluster=self.asked_cluster,
            plan=plan.plan,
            training=self.training,
            sequence_length=self.sequence_length,
            cost_model=self.asked_cost_model,
            method=plan.method,
        )
        return predict_command(request, self.model, self.asked_cluster)

    def alike(self, place: int) -> tuple[RankedPlan, ...]:
        """Plans that cannot be told from one that is ranked, at a place from 0."""
        return tuple(one.plan for one in self.variants if one.of == place and one.is_alike)

    def best_plans(self, num_others: int) -> Iterator[Plan]:
        """The ranked plans, those like them, then those of the fastest by formula that are not among them."""
        ranked = [
            *(one.plan for one in self.ranked),
            *(one.plan.plan for one in self.variants if one.is_alike),
        ]
        fastest = np.argsort(self.evaluation.step_seconds, kind="stable")[:num_others]
        yield from dict.fromkeys([*ranked, *map(self.evaluation.plans.plan, fastest.tolist())])

    @property
    def winner(self) -> RankedPlan:
        """The first."""
        return self.ranked[0]
