"""One stage of a played step, laid out as nodes: its compute call by call, and what runs beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from perfcast.core.collective import message_bytes
from perfcast.core.operation import Operation
from perfcast.core.work import Call, StepWork
from perfcast.simulate.engine import Played
from perfcast.simulate.layer import CallsTime
from perfcast.simulate.part_times import PartTimes
from perfcast.simulate.pipeline.build import Built, Piece, Side
from perfcast.simulate.pipeline.units import Content, Unit, pass_time


@dataclass(frozen=True)
class LaidNode:
    """A node of a stage, the same on all its ranks.

    Attributes:
        operation: What it runs; None for what the host does and for messages between stages.
        runs: Of the operation.
        message: 'send' or 'receive' of what stages hand each other, else ''.
        target: Stage that a message goes to or comes from, or -1.
        tag: Tells messages apart.
    """

    name: str
    start: float
    end: float
    after: tuple[int, ...]
    operation: Operation | None = None
    module: str = ""
    runs: float = 1.0
    is_on_host: bool = False
    message: str = ""
    target: int = -1
    tag: int = 0


@dataclass
class StageLayout:
    """Lays out one stage.

    Attributes:
        front: Nodes that end what was laid last on the compute stream's side.
        of_task: Nodes with which tasks of the program end.
        waits: Of each task of the program, the tasks that it waits for, also that before it on its stream.
        senders: Stage of each message.
    """

    work: StepWork
    times: PartTimes
    built: Built
    played: Played
    stage: int
    nodes: list[LaidNode] = field(default_factory=list)
    front: tuple[int, ...] = ()
    of_task: dict[int, tuple[int, ...]] = field(default_factory=dict)
    waits: dict[int, list[int]] = field(default_factory=dict)
    senders: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        program = self.built.program
        for waiting, awaited in zip(program.waiting, program.awaited, strict=True):
            self.waits.setdefault(waiting, []).append(awaited)
        last: dict[int, int] = {}
        for task, lane in enumerate(program.streams):
            if lane in last:
                self.waits.setdefault(task, []).append(last[lane])
            last[lane] = task
        for stage, sides in enumerate(self.built.sides):
            self.senders |= {side.task: stage for side in sides if side.kind == "send"}

    def lay(self) -> list[LaidNode]:
        """All nodes of the stage, by start; of one moment first what runs beside the compute."""
        sides = self.built.sides[self.stage]
        units = {kind: self._side_units(kind) for kind in ("gather", "gradient_reduction")}
        order = [(self._start(piece.task), 0, n) for n, piece in enumerate(self.built.pieces[self.stage])]
        order += [(self._start(side.task), 1, n) for n, side in enumerate(sides)]
        pieces = self.built.pieces[self.stage]
        for _, is_side, number in sorted(order, key=lambda item: (item[0], -item[1], item[2])):
            if is_side:
                self._lay_side(sides[number], units)
            else:
                self._lay_piece(pieces[number])
        return self.nodes

    def _start(self, task: int) -> float:
        return float(self.played.starts[task])

    def _end(self, task: int) -> float:
        return float(self.played.ends[task])

    def _within_step(self, start: float, end: float) -> tuple[float, float]:
        """Of the host what is this step's: what it does behind the last kernel is the next one's."""
        last = self._end(self.built.last_task(self.played))
        return min(start, last), min(end, last)

    def _side_units(self, kind: str) -> list[Unit]:
        """Units with a side of a kind, the first in the program's order last."""
        units = [piece.unit for piece in self.built.pieces[self.stage] if piece.unit is not None]
        return [u for u in units if (u.gather if kind == "gather" else u.gradient_reduction).seconds][::-1]

    def _awaited(self, task: int) -> tuple[int, ...]:
        """Nodes of what a task waits for, on this stage; messages from others become receives."""
        found: list[int] = []
        for other in self.built.awaited.get(task, ()):
            if other in self.of_task:
                found += self.of_task[other]
            else:
                found += self._receive(other)
        return tuple(found)

    def _receive(self, task: int) -> tuple[int, ...]:
        """The other end of a message that another stage sends."""
        source = self.senders.get(task, self.stage)
        if source == self.stage:
            return ()
        one = LaidNode(
            f"receive from stage {source}", self._start(task), self._end(task), (), self.work.boundary,
            message="receive", target=source, tag=task,
        )  # fmt: skip
        self.nodes.append(one)
        self.of_task[task] = (len(self.nodes) - 1,)
        return self.of_task[task]

    def _lay_side(self, side: Side, units: dict[str, list[Unit]]) -> None:
        program, task = self.built.program, side.task
        after = tuple(node for other in self.waits.get(task, ()) for node in self.of_task.get(other, ()))
        start, end = self._start(task), self._end(task)
        if side.kind == "send":
            target = int(program.labels[task].rpartition(" ")[2])
            laid = [
                LaidNode(f"send to stage {target}", start, end, after, self.work.boundary, message="send",
                      target=target, tag=task)
            ]  # fmt: skip
        elif side.kind == "host":
            laid = [LaidNode(program.labels[task], *self._within_step(start, end), after, is_on_host=True)]
        else:
            laid = list(self._reductions(side.kind, units[side.kind].pop(), start, end, after))
        self.nodes += laid
        self.of_task[task] = (len(self.nodes) - 1,)

    def _reductions(
        self, kind: str, unit: Unit, start: float, end: float, after: tuple[int, ...]
    ) -> Iterator[LaidNode]:
        """The gradient reductions of a unit's layers one after another, each with its share of the time."""
        found: list[tuple[Call, float]] = []
        for content in unit.contents:
            layer = self.work.layers[content.layer]
            calls = (
                layer.gradient_reduction
                if kind == "gradient_reduction"
                else _gathers(layer.gather, layer.gather_again)
            )
            found += [(call, call.num_runs * content.count) for call in calls if call.is_collective]
        total = sum(message_bytes(call.operation) * runs for call, runs in found) or 1.0
        clock = start
        for place, (call, runs) in enumerate(found):
            share = message_bytes(call.operation) * runs / total
            until = end if place == len(found) - 1 else clock + share * (end - start)
            yield LaidNode(call.operation.name, clock, until, after, call.operation, call.module, runs)
            after, clock = (len(self.nodes) + place,), until

    def _lay_piece(self, piece: Piece) -> None:
        task = piece.task
        start, end = self._start(task), self._end(task)
        self.front = (*self.front, *self._awaited(task))
        if piece.unit is None:
            time = self.times.optimizers[self.stage] if piece.time.seconds else piece.time
            self._lay_calls(time, start, end, "optimizer")
        elif len(piece.actions) > 1 or not piece.unit.time.seconds:
            self._lay_one(self.built.program.labels[task], start, end)
        else:
            self._lay_contents(piece.unit, start, end)
        self.of_task[task] = self.front

    def _lay_contents(self, unit: Unit, start: float, end: float) -> None:
        scale = (end - start) / unit.time.seconds
        clock = start + scale * unit.before_seconds
        if unit.before_seconds:
            self._lay_one("copies", start, clock)
        for content in unit.contents:
            one = pass_time(self.times.layers[content.layer], content.kind)
            for _ in range(content.count if one.seconds else 0):
                until = min(clock + scale * one.seconds, end)
                self._lay_calls(one, clock, until, self._name(content))
                clock = until
        if clock < end:
            self._lay_one("copies", clock, end)

    def _name(self, content: Content) -> str:
        return f"{self.times.layers[content.layer].name} {content.kind.name.lower().replace('_', ' ')}"

    def _lay_one(self, name: str, start: float, end: float) -> None:
        if end > start:
            self.nodes.append(LaidNode(name, start, end, self.front))
            self.front = (len(self.nodes) - 1,)

    def _lay_calls(self, time: CallsTime, start: float, end: float, where: str) -> None:
        """Calls of a layer, which begins when all before it has ended."""
        if not time.calls:
            return
        scale = (end - start) / time.seconds if time.seconds else 0.0
        first, begin = len(self.nodes), self.front
        last: dict[object, int] = {}
        awaited: set[int] = set()
        for place, call in enumerate(time.calls):
            after = {first + other for other in call.after}
            if call.stream in last:
                after.add(last[call.stream])
            awaited |= after
            last[call.stream] = first + place
            begun, done = start + scale * time.starts[place], start + scale * time.ends[place]
            self.nodes.append(
                LaidNode(
                    call.operation.name, begun, min(done, end), tuple(sorted(after)) or begin, call.operation,
                    f"{where}: {call.module}" if call.module else where, call.num_runs,
                )
            )  # fmt: skip
        self.front = tuple(n for n in range(first, len(self.nodes)) if n not in awaited)


def _gathers(first: Sequence[Call], again: Sequence[Call]) -> Sequence[Call]:
    return first or again
