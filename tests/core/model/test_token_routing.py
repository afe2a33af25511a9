from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.core.model.token_routing import TokenRouting


def _enumerated(routing: TokenRouting, num_places: int) -> float:
    """Mean over all choices of groups and of experts in them."""
    size, place = routing.num_experts // routing.num_groups, routing.num_experts // num_places
    counts = [
        len({expert // place for expert in experts})
        for groups in combinations(range(routing.num_groups), routing.groups_per_token)
        for experts in combinations(
            [expert for group in groups for expert in range(group * size, (group + 1) * size)],
            routing.experts_per_token,
        )
    ]
    return sum(counts) / len(counts)


def test_two_experts_of_four_on_two_places_by_hand():
    # of 6 pairs 2 lie on one place: (2 · 1 + 4 · 2) / 6
    assert TokenRouting(4, 2).expected_places(2) == pytest.approx(10 / 6)


def test_deepseek_v3_visits_fewer_than_four_of_eight_nodes():
    limited, free = TokenRouting(256, 8, 8, 4), TokenRouting(256, 8)
    assert limited.expected_places(8) == pytest.approx(3.629, abs=1e-3)
    assert free.expected_places(8) == pytest.approx(5.295, abs=1e-3)


@pytest.mark.parametrize(
    "routing",
    [TokenRouting(8, 3), TokenRouting(8, 2, 4, 2), TokenRouting(16, 3, 8, 3), TokenRouting(8, 3, 2, 1)],
)
def test_expected_places_are_the_mean_over_all_choices(routing: TokenRouting):
    for places in (1, 2, 4):
        assert routing.expected_places(places) == pytest.approx(_enumerated(routing, places))


@given(
    experts=st.sampled_from([16, 64, 256]), chosen=st.integers(1, 8), groups=st.sampled_from([1, 2, 4, 8]),
    places=st.sampled_from([1, 2, 4, 8, 16]),
)  # fmt: skip
def test_places_are_at_least_one_and_at_most_what_there_is(
    experts: int, chosen: int, groups: int, places: int
):
    free = TokenRouting(experts, chosen).expected_places(places)
    assert 1 - 1e-9 <= free <= min(places, chosen) + 1e-9
    assert TokenRouting(experts, chosen, groups, groups).expected_places(places) == pytest.approx(free)
