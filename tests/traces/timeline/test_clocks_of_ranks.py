from __future__ import annotations

from pathlib import Path

import pytest

from perfcast.traces.timeline.ranks import build_ranks
from perfcast.units import MICRO
from recorded_traces import Recording


def rank_of_two(rank: int, clock: float, jitter: float = 0.0) -> Recording:
    """Four all-reduces that end on both ranks at once, on a clock that is ahead."""
    recording = Recording(rank, 2)
    recording.step(1, clock, 1000)
    for number in range(4):
        start = clock + 200 * number
        recording.operator("c10d::allreduce_", start + 10, 20)
        recording.call("cudaLaunchKernel", start + 15, 5, number + 1)
        wobble = jitter * (-1) ** number
        told = {"Collective name": "allreduce", "In msg nelems": 10, "Group size": 2, "dtype": "Float"}
        recording.kernel("ncclDevKernel_AllReduce", start + 50, 50 + wobble, number + 1, 20, **told)
    return recording


@pytest.mark.parametrize(("clock", "jitter", "apart"), [(700, 0, 0), (30, 0, 30), (60, 50, 60), (0, 0, 0)])
def test_clocks_of_other_machines_are_set_by_what_ends_on_all_ranks_at_once(
    tmp_path: Path, clock: float, jitter: float, apart: float
) -> None:
    """Within 50 µs, or a quarter of what ends differ by, the recorded clocks count."""
    ranks = [rank_of_two(0, 0).read(tmp_path), rank_of_two(1, clock, jitter).read(tmp_path)]
    offsets = [program.offset_seconds for program in build_ranks(ranks)]
    assert offsets == pytest.approx([0.0, apart * MICRO], abs=MICRO)
