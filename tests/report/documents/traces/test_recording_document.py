"""What a recording cost, as text."""

from __future__ import annotations

import pytest

from perfcast.report.documents.traces.recordings import recording_document
from perfcast.traces.record.launch import RankRecording, Recording
from rendered import text_of


def recorded(step_seconds: float, plain_step_seconds: float) -> Recording:
    return Recording(
        (
            RankRecording(
                rank=0,
                world_size=1,
                files={},
                num_steps=2,
                step_seconds=step_seconds,
                step_wall_seconds=None,
                plain_step_seconds=plain_step_seconds,
                plain_step_wall_seconds=None,
                execution_trace_step_seconds=None,
                steps_by="optimizer",
                problem="",
            ),
        ),
        exit_code=0,
    )


@pytest.mark.parametrize(("step_seconds", "is_said"), [(0.11, False), (0.098, False), (0.011, True)])
def test_steps_that_are_shorter_with_recording_are_no_cost_and_said_to_be_none(step_seconds, is_said):
    text = " ".join(text_of(recording_document(recorded(step_seconds, 0.1))).split())
    assert f"{step_seconds / 0.1 - 1:+.1%} of processor time" in text
    assert ("this is no cost" in text) is is_said
