from __future__ import annotations

from pathlib import Path

import pytest

from made_up_traces import event, kernel, launch, timeline
from perfcast.traces.events import NONE, Category
from perfcast.traces.link.kernels import link_kernels, nest, outermost_operators


def test_events_lie_in_the_innermost_event_around_them_on_their_thread(tmp_path: Path):
    trace = timeline(
        tmp_path,
        [
            event("a", 0, 100),
            event("b", 10, 50),
            event("c", 20, 5),
            event("d", 70, 5),
            event("other", 20, 5, thread=2),
        ],
    )
    nesting = nest(trace.events)
    by_name = {trace.events.name(row): row for row in range(5)}
    parents = {name: int(nesting.parents[row]) for name, row in by_name.items()}
    assert parents == {"a": NONE, "b": by_name["a"], "c": by_name["b"], "d": by_name["a"], "other": NONE}
    assert nesting.depths[by_name["c"]] == 2
    assert nesting.overlaps == ()


def test_a_child_that_ends_less_than_a_microsecond_late_is_still_a_child(tmp_path: Path):
    trace = timeline(tmp_path, [event("parent", 0, 10), event("child", 5, 5.7), event("next", 10.2, 5)])
    nesting = nest(trace.events)
    assert nesting.parents.tolist() == [NONE, 0, NONE]
    assert nesting.overlaps == ()


def test_what_overlaps_by_more_is_told(tmp_path: Path):
    trace = timeline(tmp_path, [event("parent", 0, 10), event("late", 5, 50)])
    nesting = nest(trace.events)
    assert nesting.parents.tolist() == [NONE, NONE]
    assert nesting.overlaps == (1,)


def test_kernels_find_their_operator_by_correlation_and_containment(tmp_path: Path):
    trace = timeline(
        tmp_path,
        [
            event("aten::linear", 0, 100, External_id=1),
            event("aten::addmm", 10, 50, External_id=2),
            launch(20, 5, 77),
            kernel("gemm", 300, 10, 77, External_id=77),
            kernel("earlier", 2, 5, 50),
            kernel("unknown", 320, 5, 99),
        ],
    )
    links, events = link_kernels(trace.events), trace.events
    found = {
        events.name(row): (call, operator)
        for row, call, operator in zip(links.rows, links.calls, links.operators, strict=True)
    }
    call, operator = found["gemm"]
    assert (events.name(call), events.name(operator)) == ("cudaLaunchKernel", "aten::addmm")
    assert found["earlier"] == found["unknown"] == (NONE, NONE)
    assert [events.name(row) for row in links.rows[links.is_earlier]] == ["earlier"]
    assert links.operator_rate == pytest.approx(1 / 2)


def test_the_outermost_operators_lie_in_no_other_operator(tmp_path: Path):
    trace = timeline(
        tmp_path,
        [
            event("step", 0, 100, category="user_annotation"),
            event("a", 10, 20),
            event("inner", 11, 5),
            event("mark", 40, 20, category="user_annotation"),
            event("b", 41, 5),
        ],
    )
    rows = outermost_operators(trace.events)
    assert [trace.events.name(row) for row in rows] == ["a", "b"]
    assert all(trace.events.category(row) == Category.OPERATOR for row in rows)


def test_a_trace_without_a_device_links_all_of_nothing(tmp_path: Path):
    links = link_kernels(timeline(tmp_path, [event("a", 0, 1)]).events)
    assert (len(links.rows), links.operator_rate) == (0, 1.0)
