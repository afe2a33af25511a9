"""Loads of the busiest rank."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.cost.learned.families.routing import TILE_ROWS, Routing, route

LAWS = st.sampled_from(["balanced", "power_law_0", "power_law_1.0", "power_law_1.01", "power_law_1.2"])


def routed(tokens: float, per_token: float, experts: float, ranks: float, law: str) -> Routing:
    columns = [np.array([float(value)]) for value in (tokens, per_token, experts, ranks)]
    return route(*columns, np.array([law], dtype=object))


def test_balanced_rows_are_shared_evenly() -> None:
    routing = routed(1024, 8, 256, 4, "balanced")  # 8192 rows on 256 experts: 32 each, 64 experts here
    assert routing.rows[0] == 2048
    assert routing.touched[0] == 64
    assert routing.largest[0] == 32
    assert routing.tiles[0].tolist() == [128, 64, 64]


def test_few_balanced_rows_touch_one_expert_each() -> None:
    routing = routed(4, 8, 256, 1, "balanced")
    assert routing.touched[0] == routing.rows[0] == 32


def test_the_busiest_rank_has_work_even_for_one_token() -> None:
    routing = routed(1, 8, 256, 256, "balanced")
    assert routing.touched[0] == routing.rows[0] == 1


def test_skewed_routing_touches_fewer_experts_and_loads_one_more() -> None:
    even, skewed = routed(256, 8, 256, 1, "balanced"), routed(256, 8, 256, 1, "power_law_1.2")
    assert skewed.touched[0] < even.touched[0]
    assert skewed.largest[0] > 4 * even.largest[0]


def test_the_busiest_rank_has_more_than_its_share() -> None:
    assert routed(4096, 8, 256, 16, "power_law_1.2").rows[0] > 1.5 * 4096 * 8 / 16


def test_on_one_rank_all_rows_stay() -> None:
    assert routed(4096, 8, 256, 1, "power_law_1.2").rows[0] == pytest.approx(4096 * 8)


@given(
    tokens=st.integers(1, 70_000),
    per_token=st.sampled_from([1, 2, 8, 22]),
    experts=st.sampled_from([32, 128, 512]),
    log_ranks=st.integers(0, 5),
    law=LAWS,
)
def test_loads_stay_within_what_there_is(
    tokens: int, per_token: int, experts: int, log_ranks: int, law: str
) -> None:
    local = experts // 2**log_ranks
    routing = routed(tokens, per_token, experts, 2**log_ranks, law)
    slack = 1 + 1e-9
    assert 1 <= routing.touched[0] <= min(local, tokens * per_token) * slack
    assert routing.touched[0] <= routing.rows[0] * slack
    assert routing.tokens[0] <= tokens * slack
    assert np.all(routing.tiles[0] * TILE_ROWS >= routing.rows[0] / slack)
    assert np.all(np.diff(routing.tiles[0]) <= 0)


def test_equal_rows_get_equal_answers_in_any_order() -> None:
    tokens = np.array([64.0, 1.0, 64.0])
    laws = np.array(["power_law_1.2", "balanced", "power_law_1.2"], dtype=object)
    routing = route(tokens, np.full(3, 8.0), np.full(3, 128.0), np.full(3, 4.0), laws)
    assert routing.rows[0] == routing.rows[2] == routed(64, 8, 128, 4, "power_law_1.2").rows[0]
    assert routing.rows[1] == 2


def test_no_rows_are_no_loads() -> None:
    empty = np.zeros(0)
    assert route(empty, empty, empty, empty, np.zeros(0, dtype=object)).tiles.shape == (0, 3)


@pytest.mark.parametrize("law", ["uniform", "power_law_", "power_law_-1"])
def test_an_unknown_law_is_refused(law: str) -> None:
    with pytest.raises(ValueError, match="unknown distribution"):
        routed(1, 1, 8, 1, law)


def test_more_ranks_than_experts_are_refused() -> None:
    with pytest.raises(ValueError, match="expert_parallel"):
        routed(1, 1, 8, 16, "balanced")
