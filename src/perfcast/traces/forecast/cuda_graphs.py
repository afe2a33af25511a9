"""A recorded program as CUDA graphs would run it.

A graph holds all that one host thread launches between two moments at which it needs a result: a wait for
the device (``item()``, a blocking copy, a synchronisation) ends one graph, and so does the end of a step.
Within a graph the host does one launch; operators, Python and the gaps between them were paid at capture.
What stays of the host: the waits' own calls, the launches of graphs, and a step's data loading, at its start.

Launching a graph of n kernels takes the host 2.5 µs + 1 ns · n where they stand on one stream, and
2 µs + 200 ns · n where they do not: NVIDIA, "Constant Time Launch for Straight-Line CUDA Graphs and Other
Performance Enhancements", developer blog, 2024, which measured CUDA 12.6 and 11.8. Kernels keep the
recorded gaps between them; only the first of a graph on each stream has the way from a launch to the device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from perfcast.errors import PlanError
from perfcast.traces.events import HOST_CATEGORIES, Trace
from perfcast.traces.explain.contexts import is_data_loading
from perfcast.traces.spans import clip, overlap_seconds, total_seconds, union
from perfcast.traces.timeline.calls import WAITS, call_kind
from perfcast.traces.timeline.program import DeviceWork, HostPiece, Overhead, RankProgram
from perfcast.units import MICRO

#: Fixed and for each kernel, of a graph on one stream and of others; source above.
STRAIGHT_SECONDS, STRAIGHT_SECONDS_PER_KERNEL = 2.5 * MICRO, 1e-3 * MICRO
BRANCHED_SECONDS, BRANCHED_SECONDS_PER_KERNEL = 2.0 * MICRO, 0.2 * MICRO


def launch_seconds(num_kernels: int, num_streams: int) -> float:
    """Host time of launching one graph."""
    if num_streams == 1:
        return STRAIGHT_SECONDS + num_kernels * STRAIGHT_SECONDS_PER_KERNEL
    return BRANCHED_SECONDS + num_kernels * BRANCHED_SECONDS_PER_KERNEL


def loading_seconds(trace: Trace, program: RankProgram) -> tuple[float, ...]:
    """Host time of each step in ranges that load or copy a batch, without waits for the device."""
    events = trace.events
    is_loading = np.array([is_data_loading(name) for name in events.names], dtype=bool)
    is_wait = np.array([call_kind(name) in WAITS for name in events.names], dtype=bool)
    on_host = events.is_in(*HOST_CATEGORIES)
    codes = events.name_codes
    loading, waiting = (
        union(events.start_seconds[rows], events.end_seconds[rows])
        for rows in (on_host & is_loading[codes], on_host & is_wait[codes])
    )
    windows = {step.number: (step.start_seconds, step.end_seconds) for step in trace.steps}
    found = []
    for step in program.steps:
        low, high = windows.get(step.number, (0.0, trace.end_seconds))
        inside = union(*clip(*loading, low, high))
        found.append(total_seconds(inside) - overlap_seconds(inside, union(*clip(*waiting, low, high))))
    return tuple(found)


def with_graphs(program: RankProgram, loading: Sequence[float] = ()) -> RankProgram:
    """The program with every stretch of launches as one graph.

    Args:
        loading: Seconds of each step's data loading, ``loading_seconds``; nothing by default.

    Raises:
        PlanError: Nothing is launched to a device.
    """
    if not any(not work.collective for work in program.works):
        raise PlanError(f"--what-if graphs: rank {program.rank} launches nothing to a device")
    pieces, works = list(program.pieces), list(program.works)
    for stretch in _stretches(program.pieces):
        _capture(program, stretch, pieces, works)
    for step, seconds in zip(program.steps, loading or (0.0,) * len(program.steps), strict=True):
        first = pieces[step.first_piece]
        pieces[step.first_piece] = replace(first, seconds=first.seconds + seconds)
    return replace(program, pieces=tuple(pieces), works=tuple(works), queue_length=0)


def _capture(
    program: RankProgram, stretch: Sequence[int], pieces: list[HostPiece], works: list[DeviceWork]
) -> None:
    """One graph: its first launching piece pays, the others are free."""
    launched = [work for index in stretch for work in pieces[index].launches]
    streams = {works[work].stream for work in launched}
    cost, met = launch_seconds(len(launched), len(streams)), set[int]()
    first = next((index for index in stretch if pieces[index].launches), -1)
    for index in stretch:
        piece = program.pieces[index]
        for work in piece.launches:
            delay = 0.0
            if works[work].stream not in met:  # from the launch's start; what follows its end stays
                met.add(works[work].stream)
                delay = cost + max(0.0, works[work].delay_seconds - piece.seconds)
            works[work] = replace(works[work], delay_seconds=delay)
        pieces[index] = replace(piece, seconds=cost if index == first else 0.0, awaits=())


def count_graphs(program: RankProgram) -> int:
    """Graphs that all steps of a program launch."""
    pieces = program.pieces
    return sum(any(pieces[index].launches for index in stretch) for stretch in _stretches(pieces))


def _stretches(pieces: Sequence[HostPiece]) -> Iterator[list[int]]:
    """Pieces of one thread and step without a wait among them; waits themselves are in none.

    What was launched before the recording stands at a gap, and is in none either.
    """
    stretch: list[int] = []
    place = (-1, -1)
    for index, piece in enumerate(pieces):
        is_wait = _waits(pieces, index)
        if (piece.chain, piece.step) != place or is_wait:
            if stretch:
                yield stretch
            stretch, place = [], (piece.chain, piece.step)
        if not is_wait and not (piece.launches and piece.overhead is Overhead.BETWEEN):
            stretch.append(index)
    if stretch:
        yield stretch


def _waits(pieces: Sequence[HostPiece], index: int) -> bool:
    """Whether the host needs a result there; a launch that waits for room in a queue does not."""
    piece = pieces[index]
    if not piece.awaits:
        return False
    if piece.overhead is not Overhead.CALL or call_kind(piece.key[-1]) in WAITS:
        return True
    return index > 0 and not set(piece.awaits).isdisjoint(pieces[index - 1].launches)
