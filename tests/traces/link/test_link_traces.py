from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from made_up_traces import event, execution_trace, node, timeline
from perfcast.errors import TraceError
from perfcast.traces.events import NONE
from perfcast.traces.link.report import report_links
from perfcast.traces.link.traces import BY_NUMBER, BY_ORDER, containment_violations, link, repaired

NAMES = ["aten::linear", "aten::relu", "aten::linear", "aten::sum", "aten::mul_"]


def nodes_of(names: list[str], **attributes: Any) -> list[dict[str, Any]]:
    return [node(3 + place, name, **attributes) for place, name in enumerate(names)]


def events_of(names: list[str], first_number: int | None = None) -> list[dict[str, Any]]:
    numbers = [
        {} if first_number is None else {"Record_function_id": first_number + i} for i in range(len(names))
    ]
    return [event(name, 10 * i, 5, **args) for i, (name, args) in enumerate(zip(names, numbers, strict=True))]


def test_files_of_one_recording_are_linked_by_number(tmp_path: Path):
    found = link(execution_trace(tmp_path, nodes_of(NAMES)), timeline(tmp_path, events_of(NAMES, 3)))
    assert found.how == BY_NUMBER
    assert found.node_ids.tolist() == [3, 4, 5, 6, 7]
    assert found.rows == {3: 0, 4: 1, 5: 2, 6: 3, 7: 4}
    assert (found.row_rate, found.node_rate) == (1.0, 1.0)


def test_files_recorded_apart_are_linked_by_order_but_for_swaps(tmp_path: Path):
    swapped = [NAMES[0], NAMES[2], NAMES[1], NAMES[3], NAMES[4]]
    found = link(execution_trace(tmp_path, nodes_of(NAMES)), timeline(tmp_path, events_of(swapped)))
    assert found.how == BY_ORDER
    assert sorted(found.node_ids.tolist()) == [3, 4, 5, 6, 7]
    assert found.node_rate == 1.0


def test_numbers_that_disagree_with_the_names_are_not_believed(tmp_path: Path):
    found = link(execution_trace(tmp_path, nodes_of(NAMES)), timeline(tmp_path, events_of(NAMES, 4)))
    assert found.how == BY_ORDER


def test_events_that_share_an_instant_stand_as_in_the_file(tmp_path: Path):
    at_once = [event(name, 7, duration) for name, duration in zip(NAMES, [0, 5, 0, 0, 0], strict=True)]
    found = link(execution_trace(tmp_path, nodes_of(NAMES)), timeline(tmp_path, at_once))
    assert found.num_linked == 5


def test_threads_are_paired_by_what_they_call(tmp_path: Path):
    backward = ["aten::mm", "aten::t", "aten::mm"]
    nodes = [*nodes_of(NAMES), *(node(20 + i, name, tid=2) for i, name in enumerate(backward))]
    events = [*events_of(NAMES), *(event(name, 100 + i, 1, thread=5) for i, name in enumerate(backward))]
    found = link(execution_trace(tmp_path, nodes), timeline(tmp_path, events))
    assert found.node_rate == found.row_rate == 1.0


def test_one_step_is_found_among_many_and_the_rates_say_so(tmp_path: Path):
    step = [f"aten::op{i}" for i in range(100)]
    found = link(execution_trace(tmp_path, nodes_of(step)), timeline(tmp_path, events_of(step * 4)))
    assert (found.node_rate, found.row_rate) == (1.0, 0.25)


def test_files_that_do_not_belong_together_are_told(tmp_path: Path):
    with pytest.raises(
        TraceError, match="do not belong together: they have 1 of 5 nodes and 40 events in common"
    ):
        link(
            execution_trace(tmp_path, nodes_of(NAMES)),
            timeline(tmp_path, events_of(["aten::conv2d"] * 39 + ["aten::relu"])),
        )


def test_operators_below_a_gloo_record_get_their_true_callers_back(tmp_path: Path):
    trace = execution_trace(
        tmp_path,
        [
            node(3, "backward"),
            node(4, "c10d::allreduce_", 3),
            node(5, "gloo:all_reduce", 4),
            node(6, "aten::mm", 5),
            node(7, "aten::t", 6),
            node(8, "aten::add", 5),
        ],
    )
    times = timeline(
        tmp_path,
        [
            event("backward", 0, 100, Record_function_id=3),
            event("c10d::allreduce_", 10, 5, Record_function_id=4),
            event("gloo:all_reduce", 16, 60, thread=9, Record_function_id=5),
            event("aten::mm", 20, 10, Record_function_id=6),
            event("aten::t", 21, 5, Record_function_id=7),
            event("aten::add", 200, 10, Record_function_id=8),
        ],
    )
    found = link(trace, times)
    assert containment_violations(trace, times, found) == (5, 6, 8)
    mended = repaired(trace, times, found)
    assert containment_violations(mended, times, found) == ()
    assert {n.id: n.parent for n in mended.nodes if n.id > 2} == {3: 2, 4: 3, 5: 2, 6: 3, 7: 6, 8: 2}
    (report,) = report_links([trace], [times])
    assert (report.num_violations, report.num_violations_repaired, report.node_rate) == (3, 0, 1.0)


def test_as_many_of_one_as_of_the_other_are_needed(tmp_path: Path):
    with pytest.raises(TraceError, match="1 execution traces and 0 timelines"):
        report_links([execution_trace(tmp_path, nodes_of(NAMES))], [])


def test_steps_marks_are_not_counted_where_only_one_file_has_them(tmp_path: Path):
    events = [event("ProfilerStep#1", 0, 100, category="user_annotation"), *events_of(NAMES)]
    found = link(execution_trace(tmp_path, nodes_of(NAMES)), timeline(tmp_path, events))
    assert found.node_ids.tolist()[0] == NONE
    assert found.row_rate == 1.0
