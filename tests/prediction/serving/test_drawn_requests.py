"""Few requests stand for a distribution of lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.serving.lengths import LENGTH_SHAPES, Lengths
from perfcast.core.serving.load import ClosedLoad, RecordedLoad
from perfcast.core.serving.requests import Requests
from perfcast.errors import InputError
from perfcast.prediction.request.serving import ServingRequest
from perfcast.prediction.serving.requests import draw_requests, requests_of, stratified_lengths

RECORDED = Requests(
    np.array([3.0, 4.0, 9.0]), np.array([100, 200, 300]), np.array([5, 6, 7]), np.array([0, 50, 0])
)


def asked(**changes: Any) -> ServingRequest:
    values: dict[str, Any] = {"model": "gpt2", "cluster": load_cluster("dgx-h100:1"), "load": ClosedLoad(2)}
    return ServingRequest(**(values | changes))


@given(
    mean=st.floats(2, 10_000),
    spread=st.floats(0.05, 0.9),
    shape=st.sampled_from([shape for shape in LENGTH_SHAPES if shape != "fixed"]),
    count=st.integers(1, 400),
)
def test_the_mean_is_the_one_that_was_asked_for(mean, spread, shape, count):
    found = stratified_lengths(Lengths(mean, shape, spread), count)
    assert len(found) == count
    assert (found >= 1).all()
    # rounding moves the sum by half a token; lengths below one token become one
    floor = max(0.0, 1.0 - mean * (1 - 3 * spread)) if shape != "lognormal" else 1.0
    assert -1 / count - 1e-6 <= found.mean() - mean <= 1 / count + floor


def test_lengths_without_a_spread_are_all_the_same():
    assert stratified_lengths(Lengths(8192), 5).tolist() == [8192] * 5


def test_a_uniform_length_reaches_from_one_end_to_the_other():
    found = stratified_lengths(Lengths(1000, "uniform", 0.2), 100)
    assert (found.min(), found.max()) == (802, 1198)


def test_a_few_normal_lengths_have_the_spread_of_many():
    few, many = (stratified_lengths(Lengths(1000, "normal", 0.3), count) for count in (100, 10_000))
    assert few.std() == pytest.approx(many.std(), rel=0.05)


def test_equal_seeds_give_equal_requests_and_others_another_order():
    lengths = Lengths(100, "uniform", 0.5)
    one, same, other = (draw_requests(lengths, lengths, 50, seed=seed) for seed in (1, 1, 2))
    assert one.prompt_tokens.tolist() == same.prompt_tokens.tolist() != other.prompt_tokens.tolist()
    assert sorted(one.prompt_tokens) == sorted(other.prompt_tokens)
    assert one.prompt_tokens.tolist() != one.answer_tokens.tolist()


def test_a_share_of_each_prompt_is_cached_but_never_all_of_it():
    found = draw_requests(Lengths(10), Lengths(1), 3, prefix_hit_share=0.55)
    assert found.cached_tokens.tolist() == [5, 5, 5]
    assert draw_requests(Lengths(1), Lengths(1), 1, prefix_hit_share=0.9).cached_tokens.tolist() == [0]


def test_a_recording_keeps_its_times_only_where_they_count():
    recorded = requests_of(asked(requests=RECORDED, load=RecordedLoad()))
    assert recorded.arrival_seconds.tolist() == [0.0, 1.0, 6.0]
    assert recorded.cached_tokens.tolist() == [0, 50, 0]
    assert requests_of(asked(requests=RECORDED)).arrival_seconds.tolist() == [0.0, 0.0, 0.0]


def test_a_stated_share_of_hits_takes_the_place_of_recorded_ones():
    found = requests_of(asked(requests=RECORDED, prefix_hit_share=0.1))
    assert found.cached_tokens.tolist() == [10, 20, 30]


def test_more_requests_than_a_file_has_are_refused():
    with pytest.raises(InputError, match="4 requests asked for, but the file has 3"):
        requests_of(asked(requests=RECORDED, num_requests=4))
    assert len(requests_of(asked(requests=RECORDED, num_requests=2))) == 2
