"""Shares of requests that keep limits."""

from __future__ import annotations

from functools import partial

import pytest

from perfcast.core.forecast.serving import Between, Latency
from perfcast.core.serving.load import ClosedLoad
from perfcast.prediction.request.serving import Limits
from perfcast.prediction.serving.figures import Quantiles
from perfcast.prediction.serving.limits import share_of_played, share_within, within_of
from serving_forecasts import played_requests

AS_IT_IS = (1.0, 1.0, 1.0)
PLAYED = played_requests(ClosedLoad(16))


def latency(low: float, high: float) -> Latency:
    each = Between(1.0, low, high)
    return Latency(each, each, each, each)


def test_all_limits_count_at_once():
    first = PLAYED.time_to_first_token_seconds
    half = Limits(time_to_first_token_seconds=float(sorted(first)[99]))
    share = share_of_played(PLAYED, half, AS_IT_IS)
    assert share == pytest.approx((first <= sorted(first)[99]).mean())
    both = Limits(time_to_first_token_seconds=half.time_to_first_token_seconds, end_to_end_seconds=1e-9)
    assert share_of_played(PLAYED, both, AS_IT_IS) == 0


def test_longer_latencies_keep_fewer_limits():
    limits = Limits(end_to_end_seconds=float(PLAYED.end_to_end_seconds.mean()))
    shares = [share_of_played(PLAYED, limits, (1.0, 1.0, factor)) for factor in (0.5, 1.0, 1.5)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == 1.0


def test_the_share_lies_between_those_of_short_and_of_long_latencies():
    limits = Limits(end_to_end_seconds=float(PLAYED.end_to_end_seconds.mean()))
    found = within_of(partial(share_of_played, PLAYED, limits), limits, (latency(0.8, 1.3),) * 3)
    assert found is not None
    assert 0 <= found.low < found.value < found.high <= 1
    assert within_of(partial(share_of_played, PLAYED, limits), Limits(), (latency(0.8, 1.3),) * 3) is None


def test_shares_within_a_limit_follow_the_percentiles():
    known = Quantiles(mean=2.0, median=2.0, p90=3.0, p99=4.0)
    assert [share_within(known, limit) for limit in (0.5, 2.0, 2.5, 4.0)] == pytest.approx(
        [0.0, 0.5, 0.7, 1.0]
    )
