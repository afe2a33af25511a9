"""Write the program of a step: one simulated rank for every stage.

Each rank has a compute stream, a data stream (gathers of weights, reductions of gradients), one stream to
every stage that it sends to, and a host. Compute and data streams of a rank slow each other down; messages
between stages are small and do not. Calls within a layer have been played before (``simulate.part_times``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from perfcast.core.work import StepWork
from perfcast.errors import PlanError
from perfcast.simulate.combine import slower
from perfcast.simulate.engine import Played
from perfcast.simulate.layer import NO_TIME, CallsTime
from perfcast.simulate.part_times import PartTimes, SideTime
from perfcast.simulate.pipeline.units import SideWork, Unit, units_of
from perfcast.simulate.program import Lane, Program, ProgramBuilder
from perfcast.simulate.schedule import Action, Actions, Pass, num_parts, part_of

_Key = tuple[Pass, int, int]


@dataclass(frozen=True, slots=True)
class Piece:
    """A task of a stage's compute stream.

    Attributes:
        unit: None for the barrier before the optimizer, and for the optimizer.
        actions: Those that the unit belongs to.
    """

    task: int
    time: CallsTime
    unit: Unit | None = None
    actions: Actions = ()


@dataclass(frozen=True, slots=True)
class Side:
    """A task of another stream: its kind ('gather', 'gradient_reduction', 'send', 'host') and micro-batch."""

    task: int
    kind: str
    micro_batch: int


@dataclass(frozen=True)
class Built:
    """The program of a step, and what its tasks are.

    Attributes:
        pieces, sides: Of each stage, in order.
        awaited: Tasks that a compute task waits for, besides the one before it.
    """

    program: Program
    pieces: tuple[tuple[Piece, ...], ...]
    sides: tuple[tuple[Side, ...], ...]
    awaited: dict[int, list[int]]

    def last_task(self, played: Played) -> int:
        """The compute task that ends last: the end of the step, whatever the hosts still do."""
        return max((row[-1].task for row in self.pieces), key=lambda task: (played.ends[task], -task))


def build_step(
    work: StepWork,
    times: PartTimes,
    actions: Sequence[Actions],
    rank_slowdowns: Sequence[float] | None = None,
) -> Built:
    """The program of all stages.

    Args:
        actions: Of each stage, in order.
        rank_slowdowns: Of each stage, by what its compute takes longer.

    Raises:
        PlanError: Slowdowns of another number of stages.
    """
    num_stages = len(work.stages)
    slowdowns = [1.0] * num_stages if rank_slowdowns is None else list(rank_slowdowns)
    if len(slowdowns) != num_stages:
        raise PlanError(f"{len(slowdowns)} slowdowns of ranks for {num_stages} stages")
    builder = ProgramBuilder()
    links = _Links(work, builder)
    ends_with_barrier = num_stages > 1 and any(c.is_collective for s in work.stages for c in s.optimizer)
    barrier = builder.add_collective(num_stages) if ends_with_barrier else -1
    rows = []
    for stage in range(num_stages):
        row = _Row(work, times, builder, links, stage, slowdowns[stage])
        row.add_actions(actions[stage])
        row.add_end(barrier)
        rows.append(row)
    links.connect()
    return Built(
        builder.build(),
        tuple(tuple(row.pieces) for row in rows),
        tuple(tuple(row.sides) for row in rows),
        links.awaited,
    )


@dataclass
class _Links:
    """Messages between stages, which may be awaited before they are written."""

    work: StepWork
    builder: ProgramBuilder
    arrivals: dict[_Key, int] = field(default_factory=dict)
    lanes: dict[tuple[int, int], int] = field(default_factory=dict)
    open_ends: list[tuple[int, _Key]] = field(default_factory=list)
    awaited: dict[int, list[int]] = field(default_factory=dict)

    def wait(self, task: int, awaited: int) -> None:
        """Let a compute task wait for another."""
        self.builder.wait(task, awaited)
        self.awaited.setdefault(task, []).append(awaited)

    def lane(self, stage: int, target: int) -> int:
        """The stream of messages from one stage to another."""
        if (stage, target) not in self.lanes:
            name = f"stage {stage} to {target}"
            self.lanes[stage, target] = self.builder.add_lane(Lane(name, communicates=True))
        return self.lanes[stage, target]

    def connect(self) -> None:
        """Let the open ends wait for what has arrived."""
        for task, key in self.open_ends:
            self.wait(task, self.arrivals[key])


class _Row:
    """Writes the tasks of one stage, in the order in which its host issues them."""

    def __init__(
        self,
        work: StepWork,
        times: PartTimes,
        builder: ProgramBuilder,
        links: _Links,
        stage: int,
        slowdown: float,
    ) -> None:
        self.pieces: list[Piece] = []
        self.sides: list[Side] = []
        self._work, self._times, self._builder, self._links = work, times, builder, links
        self._stage, self._slowdown = stage, slowdown
        self._compute = builder.add_lane(Lane(f"stage {stage} compute", stage))
        self._data = builder.add_lane(Lane(f"stage {stage} data", stage, communicates=True))
        self._host = builder.add_lane(Lane(f"stage {stage} host")) if times.launch_seconds else -1
        self._last_data = -1
        self._blocking: list[int] = []
        self._put_off: list[tuple[SideTime, int]] = []
        self._cache: dict[object, tuple[Unit, ...]] = {}

    def add_actions(self, actions: Actions) -> None:
        """All passes of the stage."""
        first, last = first_passes(actions), last_gradients(actions)
        at = 0
        while at < len(actions):
            width = 2 if actions[at].joins_next else 1
            group = actions[at : at + width]
            beside = tuple(
                self._side_work(action, at + n in first, at + n in last) for n, action in enumerate(group)
            )
            key = (tuple((a.kind, a.chunk) for a in group), beside)
            if key not in self._cache:
                self._cache[key] = units_of(
                    self._work, self._times, self._stage, group, beside, self._slowdown
                )
            self._add_units(self._cache[key], group)
            at += width

    def add_end(self, barrier: int) -> None:
        """Gradient reductions that were put off, the barrier if there is one (else -1), and the optimizer."""
        for side, micro_batch in self._put_off:
            self._add_side(side, "gradient_reduction", micro_batch, self._before())
        if self._last_data >= 0:
            self._blocking.append(self._last_data)
        time = slower(self._times.optimizers[self._stage], self._slowdown)
        if barrier >= 0:
            task = self._builder.add(self._compute, 0.0, label="wait for all stages", collective=barrier)
            self._settle(task)
            self.pieces.append(Piece(task, NO_TIME))
        task = self._add_compute(time, "optimizer", -1)
        self.pieces.append(Piece(task, time))

    def _side_work(self, action: Action, is_first: bool, is_last: bool) -> SideWork:
        work = self._work
        return SideWork(
            self._times.has_gathers and (work.gathers_each_micro_batch or is_first),
            self._times.has_reductions and (work.reduces_gradients_each_micro_batch or is_last),
        )

    def _before(self) -> list[int]:
        return [self.pieces[-1].task] if self.pieces else []

    def _add_units(self, units: Sequence[Unit], group: Actions) -> None:
        """Tasks of an action or joined pair: gathers as far ahead as planned, compute, gradient reductions.

        Weights that are kept once they are gathered need not wait for room: they come in from the start on.
        """
        ahead = gathers_ahead(self._work, len(units))
        is_kept = not self._work.gathers_each_micro_batch
        before, micro_batch = [] if is_kept else self._before(), group[0].micro_batch
        gathers: list[int] = []
        done: list[int] = []
        for at, unit in enumerate(units):
            for other in range(len(gathers), min(at + ahead + 1, len(units))):
                behind = other - ahead - 1
                waits = [done[behind]] if behind >= 0 else before
                side = units[other].gather
                gathers.append(self._add_side(side, "gather", micro_batch, waits) if side.seconds else -1)
            task = self._add_compute(unit.time, self._label(unit, group), micro_batch)
            needed = gathers[at] if self._work.overlaps_gather or not is_kept else max(gathers)
            if needed >= 0:
                self._links.wait(task, needed)
            if at == 0:
                self._receive(task, group)
            self.pieces.append(Piece(task, unit.time, unit, group))
            done.append(task)
            if unit.gradient_reduction.seconds:
                self._reduce_gradients(unit.gradient_reduction, micro_batch, task)
        self._send(done[-1], group)
        if self._work.reduces_gradients_each_micro_batch and not self._work.overlaps_gradient_reduction:
            for side, number in self._put_off:
                self._blocking.append(self._add_side(side, "gradient_reduction", number, self._before()))
            self._put_off.clear()

    def _reduce_gradients(self, side: SideTime, micro_batch: int, task: int) -> None:
        if self._work.overlaps_gradient_reduction:
            self._add_side(side, "gradient_reduction", micro_batch, [task])
        else:
            self._put_off.append((side, micro_batch))

    def _add_compute(self, time: CallsTime, label: str, micro_batch: int) -> int:
        """A task of the compute stream; the host issues it, and must be as far ahead as it asks."""
        waits = []
        if self._host >= 0 and time.host_seconds:
            waits = [self._builder.add(self._host, time.lead_seconds, label=f"launch {label}")]
            rest = max(time.host_seconds - time.lead_seconds, 0.0)
            self.sides.append(Side(waits[0], "host", micro_batch))
            self.sides.append(
                Side(self._builder.add(self._host, rest, label=f"launch {label}"), "host", micro_batch)
            )
        share = time.compute_seconds / time.seconds if time.seconds else 0.0
        factor = 1.0 + (self._times.slowdown[0] - 1.0) * min(share, 1.0)
        task = self._builder.add(self._compute, time.seconds, label=label, slowdown=factor)
        for awaited in waits:
            self._links.wait(task, awaited)
        self._settle(task)
        return task

    def _settle(self, task: int) -> None:
        """Wait for what blocks the stage."""
        for awaited in self._blocking:
            self._links.wait(task, awaited)
        self._blocking.clear()

    def _add_side(self, side: SideTime, kind: str, micro_batch: int, waits: Sequence[int]) -> int:
        """A task of the data stream."""
        self._last_data = self._builder.add(
            self._data, side.seconds, waits, f"{kind} {micro_batch}", slowdown=self._times.slowdown[1]
        )
        self.sides.append(Side(self._last_data, kind, micro_batch))
        return self._last_data

    def _part(self, action: Action) -> int:
        return part_of(self._work.plan.schedule, len(self._work.stages), self._stage, action.chunk)

    def _receive(self, task: int, group: Actions) -> None:
        """Let a task wait for what the neighbours of its parts send."""
        for action in group:
            source = self._neighbour(action, -1)
            if source is not None:
                self._links.open_ends.append((task, (*source, action.micro_batch)))

    def _send(self, task: int, group: Actions) -> None:
        """Pass on what a task has made, where the next part is on another stage."""
        work, num_stages = self._work, len(self._work.stages)
        for action in group:
            target = self._neighbour(action, 1)
            if target is None:
                continue
            key = (target[0], self._part(action), action.micro_batch)
            stage = target[1] % num_stages
            if work.plan.schedule == "dualpipe" and action.chunk:
                stage = num_stages - 1 - target[1]
            if stage == self._stage or not self._times.boundary_seconds:
                self._links.arrivals[key] = task
                continue
            lane = self._links.lane(self._stage, stage)
            label = f"send {key[0].value}{action.micro_batch} to stage {stage}"
            sent = self._builder.add(lane, self._times.boundary_seconds, [task], label)
            self._links.arrivals[key] = sent
            self.sides.append(Side(sent, "send", action.micro_batch))
            if not work.overlaps_boundary:
                self._blocking.append(sent)

    def _neighbour(self, action: Action, step: int) -> tuple[Pass, int] | None:
        """The pass and part after (1) or before (-1) an action in its direction; None at the ends."""
        if action.kind is Pass.WEIGHT_GRADIENT:
            return None
        forward = action.kind is Pass.FORWARD
        part = self._part(action) + (step if forward else -step)
        virtual = self._work.plan.virtual_stages_per_rank
        if not 0 <= part < num_parts(self._work.plan.schedule, len(self._work.stages), virtual):
            return None
        return Pass.FORWARD if forward else Pass.BACKWARD, part

    def _label(self, unit: Unit, group: Actions) -> str:
        """Such as 'F3' or 'F3+B1', with the layer where it is one layer's task."""
        name = "+".join(f"{action.kind.value}{action.micro_batch}" for action in group)
        if unit.gather.seconds or unit.gradient_reduction.seconds:
            return f"{name} {self._times.layers[unit.contents[0].layer].name}"
        return name


def gathers_ahead(work: StepWork, num_units: int) -> int:
    """Units ahead of the one that runs whose weights are gathered: all, if the step then keeps them."""
    if not work.gathers_each_micro_batch:
        return num_units
    return work.plan.num_prefetched if work.overlaps_gather else 0


def first_passes(actions: Actions) -> set[int]:
    """Positions of the first pass of each kind in each chunk: those that find no weights gathered."""
    first: dict[tuple[bool, int], int] = {}
    for at, action in enumerate(actions):
        first.setdefault((action.kind is Pass.FORWARD, action.chunk), at)
    return set(first.values())


def last_gradients(actions: Actions) -> set[int]:
    """Positions of the last pass of each chunk that makes gradients of weights."""
    last: dict[int, int] = {}
    for at, action in enumerate(actions):
        if action.kind in (Pass.BACKWARD, Pass.WEIGHT_GRADIENT):
            last[action.chunk] = at
    return set(last.values())
