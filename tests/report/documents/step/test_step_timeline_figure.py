from __future__ import annotations

import math
from itertools import pairwise

from builders import small_forecast
from perfcast.report.documents.step.timeline import NUM_BINS, timeline_figure
from perfcast.report.figure import Curve


def lines_of(lane: int) -> list[tuple[float, float]]:
    found = []
    for series in timeline_figure(small_forecast()).series:
        assert isinstance(series, Curve)
        starts, ends, lanes = series.x[::3], series.x[1::3], series.y[::3]
        found += [(a, b) for a, b, at in zip(starts, ends, lanes, strict=True) if at == lane]
    return sorted(found)


def test_every_lane_fills_the_whole_step_without_gap_or_overlap():
    total = math.fsum(small_forecast().node_seconds)
    for lane in range(3):
        lines = lines_of(lane)
        assert lines[0][0] == 0.0
        assert math.isclose(lines[-1][1], total)
        assert all(math.isclose(a[1], b[0]) for a, b in pairwise(lines))


def test_no_more_pieces_are_drawn_than_can_be_seen():
    assert len(lines_of(2)) <= 2 * NUM_BINS
