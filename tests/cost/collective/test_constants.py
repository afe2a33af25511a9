from __future__ import annotations

import pytest

from perfcast.cost.collective.constants import PATTERNS, load_constants
from perfcast.errors import UnknownNameError

CONSTANTS = load_constants()


def test_every_pattern_of_work_has_figures():
    assert tuple(CONSTANTS.patterns) == PATTERNS


def test_the_longest_beginning_of_a_kind_decides_its_group():
    assert CONSTANTS.group_of("nvlink5") == "nvlink"
    assert CONSTANTS.group_of("infiniband-ndr") == "infiniband"


def test_an_unknown_kind_of_link_lists_the_known_ones():
    with pytest.raises(UnknownNameError, match="nvlink"):
        CONSTANTS.group_of("carrier-pigeon")


def test_no_long_message_goes_faster_than_its_link():
    most = max(pattern.share for pattern in CONSTANTS.patterns.values())
    assert all(link.share * most <= 1 and link.network_share <= 1 for link in CONSTANTS.links.values())


def test_flags_beside_data_leave_at_most_their_part():
    ll, ll128, simple = CONSTANTS.protocol_shares
    assert ll <= 1 / 2
    assert ll128 <= 120 / 128
    assert simple == 1
