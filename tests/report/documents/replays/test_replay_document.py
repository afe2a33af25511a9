"""A replay's report: text, JSON by its schema, a page that needs nothing else."""

from dataclasses import replace

import pytest
from tests.small_replays import small_program

from perfcast.replays.build.call_times import CallTimes
from perfcast.replays.judge.fidelity import Fidelity, judge
from perfcast.replays.play.played import PlayedSteps, Preparation, Rehearsal
from perfcast.replays.play.session import Played
from perfcast.replays.program.program import Skipped
from perfcast.report.data.replay import data_of
from perfcast.report.documents.replays.played import document_of
from perfcast.report.figure import Bars
from perfcast.report.page import render_page
from rendered import figure_of, json_of, text_of

NAN = float("nan")


@pytest.fixture
def fidelity() -> Fidelity:
    program = small_program()
    calls = tuple(replace(call, recorded_seconds=2e-3, gap_seconds=1e-5) for call in program.calls)
    skipped = (
        Skipped(8, "aten::<script>alert(1)</script>", "nobody has it", 2e-3),
        Skipped(9, "aten::record_stream", "there are no streams", 1e-3, is_harmless=True),
    )
    steps = PlayedSteps((4.0, 2.0, 3.0), (3.0, 1.0, 2.0))
    rehearsal = Rehearsal({2: "no such index"}, {})
    times = CallTimes((NAN,) * 3, (1e-3, 1e-3, NAN))
    played = Played(steps, rehearsal, Preparation.AHEAD, times, peak_bytes=240)
    return judge(replace(program, calls=calls, skipped=skipped), played, plain_processor_seconds=1.6)


def test_coverage_counts_what_is_lost(fidelity: Fidelity):
    assert fidelity.operation_coverage == pytest.approx(2 / 4)
    assert fidelity.time_coverage == pytest.approx(4 / 8)
    assert [one.operator for one in fidelity.left_out][-1] == "aten::record_stream"


def test_quartiles_and_errors_are_of_a_step(fidelity: Fidelity):
    assert (fidelity.processor.low, fidelity.processor.median, fidelity.processor.high) == (1.5, 2.0, 2.5)
    assert fidelity.step[0].relative_error == pytest.approx(0.25)
    assert fidelity.kinds[0].label == "matmul"
    assert fidelity.kinds[0].relative_error == pytest.approx(-0.5)


def test_the_data_follow_the_published_schema(fidelity: Fidelity):
    data = json_of(data_of([fidelity]))
    assert data["ranks"][0]["utilisation"]["processor_watts"] is None


def test_the_text_says_what_was_left_out_and_why(fidelity: Fidelity):
    text = text_of(document_of([fidelity]), 120)
    assert "50.0 %, of 4 recorded calls" in text
    assert "no such index" in text
    assert "nothing is lost" in text
    assert "+25.0 %" in text


def test_the_page_needs_nothing_else_and_escapes_names(fidelity: Fidelity):
    page = render_page(document_of([fidelity, fidelity]))
    assert "<script>alert(1)" not in page
    assert "default-src 'none'" in page
    assert "Left out" in page


def test_recorded_and_replayed_times_stand_side_by_side(fidelity: Fidelity):
    document = document_of([fidelity])
    recorded, replayed = figure_of(document, "kinds").series
    assert isinstance(recorded, Bars)
    assert isinstance(replayed, Bars)
    assert (recorded.name, replayed.name) == ("recorded", "replayed")
    assert recorded.labels == replayed.labels
    assert recorded.values[0] == pytest.approx(2 * replayed.values[0])
    (repetitions,) = figure_of(document, "repetitions").series
    assert repetitions.y == (4.0, 2.0, 3.0)
