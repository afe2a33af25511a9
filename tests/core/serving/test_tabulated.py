"""Steps from tables: what is added up, what a captured graph pads, what the host makes of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.core.arrays import Floats
from perfcast.core.serving.grid import Curve, Surface, rising
from perfcast.core.serving.host import StepHost
from perfcast.core.serving.step import StepBatch, StepBatches, batches_in_columns
from perfcast.core.serving.tabulated import TabulatedSteps

_POINTS = np.array([1.0, 10.0, 100.0])


def _curve(slope: float, start: float = 0.0, stages: int = 1) -> Curve:
    values = np.zeros((stages, 3, 3))
    values[:, :, 1] = start + slope * _POINTS
    return Curve(_POINTS, values)


def _surface(slope: float, stages: int = 1) -> Surface:
    values = np.zeros((stages, 3, 3, 3))
    values[..., 0] = slope * _POINTS[:, None] * _POINTS
    return Surface(_POINTS, _POINTS, values)


def _steps(**changes: object) -> TabulatedSteps:
    parts: dict[str, object] = {
        "copies": (1,),
        "answer_tokens": _curve(1.0, 10.0),
        "mixed_tokens": _curve(1.0, 20.0),
        "answers": _surface(0.01),
        "prompts": _surface(0.001),
        "rows": _curve(0.1),
    }
    return TabulatedSteps(**{**parts, **changes})  # type: ignore[arg-type]


def _columns(batch: StepBatch, n: int = 1) -> StepBatches:
    names = ("sequences", "cached_tokens", "prompts", "prompt_tokens", "prompt_pairs", "ended_prompts")
    return StepBatches(*(np.full(n, float(getattr(batch, name))) for name in names))


def test_a_step_of_decoding_is_the_sum_of_its_tokens_its_attention_and_its_rows() -> None:
    batch = StepBatch(sequences=4, cached_tokens=200)
    assert _steps().seconds(batch) == pytest.approx((10 + 4) + 0.01 * 200 + 0.1 * 4)


def test_a_mixed_step_has_one_pass_of_all_tokens_and_attention_of_both() -> None:
    batch = StepBatch(4, 200, 1, 50, 50 * 30, 1)
    expected = (20 + 54) + 0.01 * 200 + 0.001 * 50 * 30 + 0.1 * 5
    assert _steps().seconds(batch) == pytest.approx(expected)


def test_decoding_is_padded_to_the_next_captured_graph_and_not_beyond_the_largest() -> None:
    steps = _steps(captured_tokens=(1, 8, 16))
    few, many = StepBatch(sequences=9), StepBatch(sequences=17)
    assert steps.seconds(few) == pytest.approx(10 + 16 + 0.01 * 9 + 0.9)
    assert steps.seconds(many) == pytest.approx(10 + 17 + 0.01 * 17 + 1.7)


def test_a_host_that_overlaps_hides_and_one_that_does_not_adds() -> None:
    batch = StepBatch(sequences=10, cached_tokens=10)
    alone = _steps().seconds(batch)
    host = StepHost(fixed_seconds=5.0, sequence_seconds=1.0, gap_seconds=2.0)
    assert _steps(host=host).seconds(batch) == pytest.approx(max(alone, 15.0) + 2)
    adding = StepHost(fixed_seconds=5.0, sequence_seconds=1.0, overlaps=False)
    assert _steps(host=adding).seconds(batch) == pytest.approx(alone + 15)


def test_kernels_that_no_graph_replays_take_the_host_its_launches() -> None:
    steps = _steps(
        host=StepHost(launch_seconds=1.0),
        captured_tokens=(8,),
        answer_launches=(500.0,),
        mixed_launches=(600.0,),
    )
    assert steps.seconds(StepBatch(sequences=8)) < 100
    assert steps.seconds(StepBatch(sequences=9)) == pytest.approx(500)
    assert steps.seconds(StepBatch(8, 8, 1, 10, 55, 1)) == pytest.approx(600)


def test_the_busiest_stage_sets_the_pace_and_all_stages_the_latency() -> None:
    values = np.zeros((2, 3, 3))
    values[:, :, 1] = [[1.0] * 3, [2.0] * 3]
    nothing = Curve(_POINTS, np.zeros((2, 3, 3)))
    steps = _steps(
        copies=(3, 1),
        answer_tokens=Curve(_POINTS, values),
        mixed_tokens=Curve(_POINTS, values),
        answers=_surface(0.0, 2),
        prompts=_surface(0.0, 2),
        rows=nothing,
        boundary=_curve(0.0, 0.25),
    )
    batch = StepBatch(sequences=5, cached_tokens=5)
    assert steps.stages == 4
    assert steps.seconds(batch) == pytest.approx(2)
    assert steps.latency_seconds(batch) == pytest.approx(3 * 1 + 2 + 3 * 0.25)


def test_less_work_that_would_take_longer_is_padded_to_more() -> None:
    values = np.array([[[1.0, 1.0, 0.0], [0.5, 0.5, 0.0], [3.0, 0.0, 0.0]]])
    raised = rising(values, [1])
    assert raised.sum(axis=-1).tolist() == [[1.0, 1.0, 3.0]]
    assert raised[0, 0].tolist() == [0.5, 0.5, 0.0]


_BATCHES = st.builds(
    lambda s, held, t, seen, ended: StepBatch(
        s, float(s * held), min(t, 3), t, float(t * seen), min(ended, t, 3)
    ),
    st.integers(0, 300),
    st.integers(1, 300),
    st.integers(0, 300),
    st.integers(1, 300),
    st.integers(0, 3),
).filter(lambda batch: batch.sequences + batch.prompt_tokens > 0)
_HOSTS = st.builds(
    lambda fixed, each, gap, launch, overlaps: StepHost(
        fixed_seconds=fixed, sequence_seconds=each, gap_seconds=gap, launch_seconds=launch, overlaps=overlaps
    ),
    *(st.floats(0, 5) for _ in range(4)),
    st.booleans(),
)


@given(_BATCHES, _HOSTS, st.booleans())
def test_one_batch_and_a_column_of_them_take_equally_long(
    batch: StepBatch, host: StepHost, pads: bool
) -> None:
    steps = _steps(
        host=host,
        captured_tokens=(1, 8, 64) if pads else (),
        answer_launches=(30.0,),
        mixed_launches=(40.0,),
        drafts=_curve(0.2),
        tokens_per_sequence=2,
    )
    columns = _columns(batch, 3)
    seconds: Floats = steps.seconds_of(columns)
    assert seconds == pytest.approx(steps.seconds(batch), rel=1e-12)
    by_bound = steps.seconds_by_bound(columns)
    assert by_bound.sum(axis=-1) == pytest.approx(seconds, rel=1e-12)
    assert by_bound.min() >= -1e-9
    assert steps.seconds(batch) > 0


@given(_BATCHES, st.integers(0, 50), st.integers(0, 5000), st.integers(0, 50), st.booleans())
def test_more_work_never_takes_less(batch: StepBatch, more: int, held: int, read: int, pads: bool) -> None:
    steps = _steps(captured_tokens=(1, 8, 64) if pads else ())
    each = batch.cached_tokens / batch.sequences if batch.sequences else 10.0
    larger = StepBatch(
        batch.sequences + more,
        batch.cached_tokens + more * each + (held if batch.sequences + more else 0),
        batch.prompts + (read > 0),
        batch.prompt_tokens + read,
        batch.prompt_pairs + read * (batch.prompt_pairs / max(batch.prompt_tokens, 1) or 1.0),
        batch.ended_prompts,
    )
    assert steps.seconds(larger) >= steps.seconds(batch) * (1 - 1e-12)


def test_ranks_that_read_prompts_share_experts_at_the_mean_of_their_tokens() -> None:
    """Of 50 tokens each or of 80 and 20, experts (2 a token) have 100; the rest is the slowest's."""
    steps = _steps(mixed_shared=_curve(2.0), answer_shared=_curve(2.0), mixed_tokens=_curve(3.0))
    even, uneven = ([StepBatch(0, 0.0, 1, n, n * 10.0) for n in tokens] for tokens in ((50, 50), (80, 20)))
    alone = steps.seconds(even[0])
    assert steps.seconds_together(batches_in_columns(even), 2) == pytest.approx(alone)
    slowest = steps.seconds(uneven[0]) - 2.0 * 80
    assert steps.seconds_together(batches_in_columns(uneven), 2) == pytest.approx(slowest + 2.0 * 50)
    assert steps.seconds_together(batches_in_columns(uneven[:1]), 2) == pytest.approx(slowest + 2.0 * 40)
    writing = batches_in_columns([StepBatch(8, 80.0), StepBatch(2, 20.0)])
    assert steps.seconds_together(writing, 2) == pytest.approx(steps.seconds(StepBatch(8, 80.0)))
