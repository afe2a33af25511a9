"""Orders of passes: what each stage runs, and numbers for which a schedule does not exist."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.errors import PlanError, UnknownNameError
from perfcast.simulate.schedule import Pass, inference_actions, num_parts, part_of, stage_actions
from perfcast.simulate.schedule.order import order_steps


def words(schedule: str, num_stages: int, num_micro_batches: int, stage: int, virtual: int = 1) -> str:
    actions = stage_actions(schedule, num_stages, num_micro_batches, virtual)[stage]
    named = virtual > 1 or schedule == "dualpipe"
    return " ".join(f"{a.kind.value}{a.micro_batch}{'ab'[a.chunk] if named else ''}" for a in actions)


@st.composite
def numbers(draw: st.DrawFn) -> tuple[str, int, int, int]:
    schedule = draw(st.sampled_from(("gpipe", "1f1b", "interleaved", "zero_bubble", "dualpipe")))
    num_stages, virtual = draw(st.integers(1, 6)), 1
    count = draw(st.integers(1, 24))
    if schedule == "interleaved":
        virtual = draw(st.integers(2, 4))
        count = num_stages * draw(st.integers(1, 4))
    if schedule == "dualpipe":
        num_stages *= 2
        count = 2 * num_stages + 2 * draw(st.integers(0, 6))
    return schedule, num_stages, count, virtual


@pytest.mark.parametrize(
    ("stage", "order"),
    [
        (0, "F0 F1 F2 B0 F3 B1 F4 B2 B3 B4"),
        (1, "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4"),
        (2, "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4"),
    ],
)
def test_1f1b_runs_as_many_forwards_ahead_as_stages_follow(stage: int, order: str):
    assert words("1f1b", 3, 5, stage) == order


def test_gpipe_runs_all_forwards_first():
    assert words("gpipe", 2, 3, 1) == "F0 F1 F2 B0 B1 B2"


def test_interleaved_passes_groups_of_micro_batches_through_chunks():
    assert words("interleaved", 2, 4, 1, virtual=2) == (
        "F0a F1a F0b B0b F1b B1b F2a B0a F3a B1a F2b B2b F3b B3b B2a B3a"
    )


def test_zero_bubble_fills_the_drain_with_gradients_of_weights():
    assert words("zero_bubble", 3, 4, 0) == "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3"
    assert words("zero_bubble", 3, 4, 2) == "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3"


def test_dualpipe_runs_both_directions_on_every_rank():
    assert words("dualpipe", 2, 4, 0) == "F0a F2b F1a B2b F3b B0a B3b I1a W1a"
    assert words("dualpipe", 2, 4, 1) == "F2b F0a F3b B0a F1a B2b B1a I3b W3b"


@given(numbers())
def test_every_micro_batch_passes_every_part_once_in_each_direction(case: tuple[str, int, int, int]):
    schedule, num_stages, count, virtual = case
    seen: Counter[tuple[Pass, int, int]] = Counter()
    for stage, row in enumerate(stage_actions(*case)):
        for action in row:
            part = part_of(schedule, num_stages, stage, action.chunk)
            if action.kind is Pass.BACKWARD:
                seen[Pass.INPUT_GRADIENT, part, action.micro_batch] += 1
                seen[Pass.WEIGHT_GRADIENT, part, action.micro_batch] += 1
            else:
                seen[action.kind, part, action.micro_batch] += 1
    assert set(seen.values()) == {1}
    assert len(seen) == 3 * count * num_parts(schedule, num_stages, virtual)


@given(numbers())
def test_a_stage_makes_gradients_after_the_forward_and_of_weights_last(case: tuple[str, int, int, int]):
    for row in stage_actions(*case):
        at = {(a.kind, a.chunk, a.micro_batch): n for n, a in enumerate(row)}
        for (kind, chunk, number), position in at.items():
            if kind is Pass.WEIGHT_GRADIENT:
                assert at[Pass.INPUT_GRADIENT, chunk, number] < position
            elif kind is not Pass.FORWARD:
                assert at[Pass.FORWARD, chunk, number] < position


@given(numbers())
def test_no_schedule_waits_for_itself(case: tuple[str, int, int, int]):
    schedule, _, _, virtual = case
    actions = stage_actions(*case)
    moves, _ = order_steps(schedule, actions, virtual)
    assert sum(len(move.actions) for move in moves) == sum(map(len, actions))


@given(numbers())
def test_1f1b_and_its_kin_hold_no_more_micro_batches_than_stages_follow(case: tuple[str, int, int, int]):
    schedule, num_stages, count, _ = case
    if schedule not in ("1f1b", "zero_bubble"):
        return
    for stage, row in enumerate(stage_actions(*case)):
        held = most = 0
        for action in row:
            held += {Pass.FORWARD: 1, Pass.WEIGHT_GRADIENT: 0}.get(action.kind, -1)
            most = max(most, held)
        assert most == min(num_stages - stage, count)


def test_inference_runs_forwards_in_groups_of_stages():
    row = inference_actions(2, 3, 2)[0]
    assert [(a.micro_batch, a.chunk) for a in row] == [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]


def test_interleaved_states_the_equation_that_fails():
    with pytest.raises(PlanError, match="6 micro-batches mod 4 = 2, must be 0"):
        stage_actions("interleaved", 4, 6, 2)


def test_dualpipe_states_the_equation_that_fails():
    with pytest.raises(PlanError, match="at least 2 · pp = 8 micro-batches"):
        stage_actions("dualpipe", 4, 6, 1)


def test_an_unknown_schedule_names_close_ones():
    with pytest.raises(UnknownNameError, match="1f1b"):
        stage_actions("1f1", 2, 2, 1)
