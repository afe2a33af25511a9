"""What each pipeline stage does in a step: its steady passes, and what its first and last ones add."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.simulate.closed_form.figures import (
    BACKWARD,
    FORWARD,
    HOST,
    INPUT_GRADIENT,
    OWN,
    WEIGHT_GRADIENT,
)
from perfcast.simulate.closed_form.group import Group
from perfcast.simulate.closed_form.passes import PassColumns, Passes
from perfcast.simulate.pipeline.units import SideWork
from perfcast.workload.plan_columns.cuts import Content


@dataclass(frozen=True, eq=False)
class StageKind:
    """Passes of a different stage, for n plans; seconds have shape [n].

    Attributes:
        forwards, backwards, weights: Steady passes of each chunk; where ``weights`` is not empty, gradients
            of inputs and of weights apart.
        joined: A forward and a whole backward side by side, where the schedule joins them.
        figures: Of one micro-batch's passes, those that are joined left out, [figure, n].
        gradient_reduction: Their seconds of gradient reductions.
        first: By what its first forwards are longer, for gathers that happen once.
        last: By what its very last gradients are longer, for gradient reductions beside them.
        earlier: By what the last gradients of its other chunks are longer.
        left: Of gradient reductions after its last backward.
        behind_host: Of those, what is left behind its last unit however late the host is.
        hosted: By what the host takes longer to issue its last gradients than they run.
    """

    forwards: tuple[PassColumns, ...]
    backwards: tuple[PassColumns, ...]
    weights: tuple[PassColumns, ...]
    joined: PassColumns | None
    figures: Floats
    gradient_reduction: Floats
    first: Floats
    last: Floats
    earlier: Floats
    left: Floats
    behind_host: Floats
    hosted: Floats


def stage_passes(group: Group, passes: Passes, chunks: Sequence[Content]) -> StageKind:
    """Steady passes of a stage, and what the first and last ones add."""
    backward = INPUT_GRADIENT if group.splits_backward else BACKWARD
    last = WEIGHT_GRADIENT if group.splits_backward else BACKWARD
    steady = SideWork(group.has_gathers and group.gathers_each, group.has_reductions and group.reduces_each)
    left = passes.of(chunks[0], last, steady).left
    still = left if left.any() else None
    of_chunk = {chunk: passes.of(chunk, FORWARD, steady, still) for chunk in dict.fromkeys(chunks)}
    forwards = tuple(of_chunk[chunk] for chunk in chunks)
    backwards = tuple(passes.of(chunk, backward, steady) for chunk in chunks)
    weights = tuple(passes.of(chunk, last, steady) for chunk in chunks) if group.splits_backward else ()
    joined = passes.joined(chunks[0], chunks[1], steady) if group.schedule == "dualpipe" else None
    longer_last, earlier, left = _last_gradients(group, passes, chunks, weights or backwards, last, steady)
    every = (*forwards, *backwards, *weights)
    figures: Floats = np.sum([one.figures for one in every], axis=0)
    final = (weights or backwards)[0]
    return StageKind(
        forwards=forwards,
        backwards=backwards,
        weights=weights,
        joined=joined,
        figures=figures,
        gradient_reduction=np.sum([one.gradient_reduction for one in every], axis=0),
        first=_first_forwards(group, passes, chunks, steady) - forwards[0].seconds,
        last=longer_last,
        earlier=earlier,
        left=left,
        behind_host=np.minimum(left, _behind_host(group, passes, chunks[0], last, steady, left)),
        hosted=np.maximum(final.figures[HOST] - final.seconds, 0.0),
    )


def _behind_host(
    group: Group, passes: Passes, content: Content, part: int, steady: SideWork, left: Floats
) -> Floats:
    """What reductions are left where a host that is late gives them all the time but behind the last unit."""
    if not group.overlaps_gradient_reduction:
        return left
    reduced = passes.last_reduction(content, part, SideWork(steady.gathers, group.has_reductions))
    return np.zeros_like(left) if reduced is None else reduced


def _first_forwards(group: Group, passes: Passes, chunks: Sequence[Content], steady: SideWork) -> Floats:
    """Seconds of the first forward, and by what those of further chunks are longer.

    Weights that are kept come in from the start on, those of one chunk behind those of another, beside the
    forwards of the other micro-batches of a group that stand between the chunks' first ones.
    """
    beside = SideWork(group.has_gathers, steady.reductions)
    if group.gathers_each or group.virtual == 1:
        return passes.of(chunks[0], FORWARD, beside).seconds
    return passes.first_forwards(chunks, group.num_stages - 1, beside)


def _last_gradients(
    group: Group,
    passes: Passes,
    chunks: Sequence[Content],
    usual: Sequence[PassColumns],
    part: int,
    steady: SideWork,
) -> tuple[Floats, Floats, Floats]:
    """By what the very last pass is longer, those of other chunks are, and what reductions it leaves.

    A chunk's gradient reductions run on beside the passes between its last one and that of the chunk before
    it, unless they are put off.
    """
    puts_off = not (group.overlaps_gradient_reduction or group.reduces_each)
    slowed = usual[0].seconds + (group.slowdown[0] - 1.0) * usual[0].figures[OWN]
    between = (group.num_stages - 1) * slowed / group.slowdown[1]
    left = longer = earlier = np.zeros_like(between)
    final = SideWork(steady.gathers, group.has_reductions)
    for at in reversed(range(len(chunks))):
        beside = np.maximum(left - between, 0.0)
        is_beside = bool(beside.any()) and not puts_off
        ending = passes.of(chunks[at], part, final, beside if is_beside else None)
        left = ending.left + left if puts_off else ending.left
        earlier, longer = earlier + longer, ending.seconds - usual[at].seconds
    return longer, earlier if group.schedule == "interleaved" else np.zeros_like(left), left
