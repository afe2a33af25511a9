"""One call as a function without arguments, made in advance: the loop of a replay only calls these.

A *checked* runner catches what goes wrong and compares what comes out with the recording; a plain one
does only what it must.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

from perfcast.replays.play.prepare import stand_in, window
from perfcast.replays.program.program import CallKind, ReplayProgram, Slot
from perfcast.replays.program.spots import LaidOutCall, Spot, Window
from perfcast.traces.events import NONE

if TYPE_CHECKING:
    import torch

Runner = Callable[[], None]

#: What an operator raises that cannot run here; anything else is a fault of ours.
FAILURES = (
    RuntimeError, ValueError, IndexError, TypeError, NotImplementedError, AssertionError, KeyError,
    AttributeError, ImportError, MemoryError, ArithmeticError,
)  # fmt: skip
#: Operators that taking a tensor out of a buffer runs, by whether it is of the same type as the other one.
WINDOW_EVENTS = {True: ("aten::as_strided",), False: ("aten::empty", "aten::set_")}


@dataclass
class Findings:
    """What a rehearsal found: calls that failed with the reason, and outputs that are not as recorded.

    ``failures`` by call; ``replaced`` by slot: why a stand-in takes the tensor's place. ``undifferentiated``
    are calls that only run where autograd does not look.
    """

    failures: dict[int, str] = field(default_factory=dict)
    replaced: dict[int, str] = field(default_factory=dict)
    undifferentiated: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class ResultSpots:
    """Where the tensors that come out of a call go: (place among them, the places in arguments)."""

    targets: tuple[tuple[int, tuple[Spot, ...]], ...]

    @classmethod
    def of(
        cls, entry: LaidOutCall, targets: Sequence[list[Spot]], left_out: Mapping[int, Any]
    ) -> ResultSpots:
        """Where the results of a call go; those in ``left_out`` go nowhere."""
        places = ((p, s) for p, s in enumerate(entry.call.outputs) if s != NONE and s not in left_out)
        return cls(tuple((place, tuple(targets[slot])) for place, slot in places if targets[slot]))


def plain_runner(entry: LaidOutCall, outputs: ResultSpots, clears: Sequence[Spot]) -> Runner:
    """The call, its results put where they are used, its own places cleared."""
    function, positional, keywords = entry.function, entry.positional, entry.keywords
    places = tuple(clears)
    if not outputs.targets:
        return _without_result(function, positional, keywords, places)
    if len(entry.call.outputs) == 1:
        return _with_one_result(function, positional, keywords, places, outputs.targets[0][1])

    def run() -> None:
        results = flat(function(*positional, **keywords))
        for place, spots in outputs.targets:
            for container, key in spots:
                container[key] = results[place]
        for container, key in places:
            container[key] = None

    return run


def _without_result(function: Any, positional: Any, keywords: Any, clears: tuple[Spot, ...]) -> Runner:
    def run() -> None:
        function(*positional, **keywords)
        for container, key in clears:
            container[key] = None

    def run_bare() -> None:
        function(*positional, **keywords)

    return run if clears else run_bare


def _with_one_result(
    function: Any, positional: Any, keywords: Any, clears: tuple[Spot, ...], spots: tuple[Spot, ...]
) -> Runner:
    def run() -> None:
        result = function(*positional, **keywords)
        for container, key in spots:
            container[key] = result
        for container, key in clears:
            container[key] = None

    def run_simple() -> None:
        result = function(*positional)
        for container, key in spots:
            container[key] = result
        for container, key in clears:
            container[key] = None

    return run if keywords else run_simple


def checked_runner(
    entry: LaidOutCall,
    program: ReplayProgram,
    targets: Sequence[list[Spot]],
    clears: Sequence[Spot],
    found: Findings,
) -> Runner:
    """The call with everything checked; stand-ins where it fails or gives something else."""

    def run() -> None:
        results: list[Any] = []
        try:
            results = flat(_tried(entry, found))
        except FAILURES as error:
            found.failures[entry.index] = entry.problem or _first_line(error)
        for place, index in enumerate(entry.call.outputs):
            if index == NONE:
                continue
            result = results[place] if place < len(results) else None
            difference = "" if index in found.replaced else _difference(result, program.slots[index])
            if difference:
                found.replaced[index] = difference
            if index in found.replaced:
                result = stand_in(program.slots[index])
            for container, key in targets[index]:
                container[key] = result
        for container, key in clears:
            container[key] = None

    return run


def _tried(entry: LaidOutCall, found: Findings) -> Any:
    """What the call returns; noted by autograd, where it was and where that works here."""
    import torch

    if entry.function is None:
        raise ValueError(entry.problem)
    if entry.call.is_differentiated and entry.call.kind is CallKind.OPERATOR:
        try:
            with torch.enable_grad():
                return entry.function(*entry.positional, **entry.keywords)
        except FAILURES:
            found.undifferentiated.add(entry.index)
    return entry.function(*entry.positional, **entry.keywords)


def flat(result: Any) -> list[Any]:
    """The tensors that come out of an operator, lists flattened; undefined ones are ``None``."""
    if isinstance(result, (tuple, list)):
        return [item for part in result for item in flat(part)]
    return [result] if result is None or hasattr(result, "untyped_storage") else []


def _difference(result: Any, slot: Slot) -> str:
    """How a result differs from what was recorded; '' where it does for those who use it."""
    if result is None:
        return "no tensor comes out"
    dtype = str(result.dtype).removeprefix("torch.")
    if tuple(result.shape) != slot.shape:
        return f"its shape is {tuple(result.shape)}, recorded was {slot.shape}"
    return f"it is of {dtype}, recorded was {slot.dtype}" if dtype != slot.dtype else ""


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:300]


def window_runner(taken: Window, program: ReplayProgram, spots: Sequence[Spot]) -> Runner:
    """A tensor taken out of the buffer in which another tensor lies, and put where it is used."""
    slot, source = program.slots[taken.slot], taken.place
    places = tuple(spots)
    offset, shape, strides = slot.offset_elements, slot.shape, slot.strides
    is_same_type = program.slots[taken.source].dtype == slot.dtype

    def run() -> None:
        tensor = source[0].as_strided(shape, strides, offset)
        for container, key in places:
            container[key] = tensor
        source[0] = None

    def run_other_type() -> None:
        tensor = window(source[0].untyped_storage(), slot)
        for container, key in places:
            container[key] = tensor
        source[0] = None

    return run if is_same_type else run_other_type


def checked_window_runner(
    taken: Window, program: ReplayProgram, spots: Sequence[Spot], found: Findings
) -> Runner:
    """The same; a stand-in where the buffer is another one than recorded."""
    run_plain = window_runner(taken, program, spots)

    def run() -> None:
        if taken.source in found.replaced:
            found.replaced[taken.slot] = "it lies in a buffer that another tensor stands in for"
        if taken.slot not in found.replaced:
            try:
                run_plain()
            except FAILURES as error:
                found.replaced[taken.slot] = _first_line(error)
        if taken.slot in found.replaced:
            put(stand_in(program.slots[taken.slot]), spots)
            taken.place[0] = None

    return run


def gradient_runner(is_on: bool) -> Runner:
    """Lets autograd take note of what follows, or not."""
    from perfcast.torch_internals.eager import set_grad_enabled

    def run() -> None:
        set_grad_enabled(is_on)

    return run


def stream_switch(*, is_on_device: bool) -> Callable[[int], Runner | None]:
    """Asked for the stream of each call in order: what goes there, if the call before was on another.

    A stream waits for what was started on the one before. Without a GPU of NVIDIA's nothing is switched.
    """
    import torch

    if not is_on_device or not torch.cuda.is_available():
        return lambda _: None
    streams: dict[int, Any] = {NONE: torch.cuda.current_stream()}
    current = NONE

    def switch(wanted: int) -> Runner | None:
        nonlocal current
        if wanted == current:
            return None
        if wanted not in streams:
            streams[wanted] = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        before, after, current = streams[current], streams[wanted], wanted

        def run() -> None:
            after.wait_stream(before)
            torch.cuda.set_stream(after)

        return run

    return switch


def spin_runner(seconds: float) -> Runner:
    """Keeps the processor busy for a time, as the host's own work did in the recording."""

    def run() -> None:
        end = perf_counter() + seconds
        while perf_counter() < end:
            pass

    return run


def spinning_overhead_seconds() -> float:
    """What a spin of no time costs: the least of some thousand."""
    run = spin_runner(0.0)
    best = float("inf")
    for _ in range(2000):
        before = perf_counter()
        run()
        run()
        best = min(best, perf_counter() - before)
    return best / 2


def put(tensor: torch.Tensor | None, spots: Sequence[Spot]) -> None:
    """Put a tensor into its places; ``None`` clears them."""
    for container, key in spots:
        container[key] = tensor
