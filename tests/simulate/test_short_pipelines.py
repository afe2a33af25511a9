"""1F1B with few micro-batches, wave by wave, is what its passes give one after another."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from perfcast.simulate.closed_form.short_pipeline import short_makespans
from perfcast.simulate.schedule.action import Pass
from perfcast.simulate.schedule.one_by_one import one_forward_one_backward

SECONDS = st.floats(0, 10)


def pass_by_pass(f: list[float], b: list[float], count: int, message: float) -> float:
    """The end of the last pass: each starts when its stage is free and what it takes has arrived."""
    num_stages = len(f)
    rows = [list(one_forward_one_backward(num_stages, stage, count)) for stage in range(num_stages)]
    ends: dict[tuple[bool, int, int], float] = {}
    free = [0.0] * num_stages
    while any(rows):
        for stage, row in enumerate(rows):
            if not row:
                continue
            forward, at = row[0].kind is Pass.FORWARD, row[0].micro_batch
            sender = stage - 1 if forward else stage + 1
            if 0 <= sender < num_stages:
                if (forward, sender, at) not in ends:
                    continue
                free[stage] = max(free[stage], ends[forward, sender, at] + message)
            free[stage] += (f if forward else b)[stage]
            ends[forward, stage, at] = free[stage]
            row.pop(0)
    return max(free)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_waves_end_when_their_passes_do(data: st.DataObject) -> None:
    stages = data.draw(st.integers(1, 9))
    rows = st.lists(SECONDS, min_size=stages, max_size=stages)
    f, b, message = data.draw(rows), data.draw(rows), data.draw(SECONDS)
    counts = data.draw(st.lists(st.integers(1, stages), min_size=1, max_size=3))
    columns = [np.tile(np.array(each)[:, None], len(counts)) for each in (f, b)]
    found = short_makespans(*columns, np.array(counts), np.full(len(counts), message))
    assert found.tolist() == [pass_by_pass(f, b, count, message) for count in counts]
