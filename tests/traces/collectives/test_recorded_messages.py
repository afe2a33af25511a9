"""Sends and receives in recordings: who hands what to whom."""

from __future__ import annotations

from perfcast.traces.collectives.groups import collective_of, peer_and_tag, with_only_group
from perfcast.traces.events import NONE, Collective, ProcessGroup

GROUP = ProcessGroup("0", "", "gloo", (4, 6))


def test_a_send_names_its_receiver_and_a_receive_its_sender() -> None:
    sent = collective_of(0, {"Collective name": "send", "Dst Rank": 3})
    received = collective_of(0, {"Collective name": "recv", "Src Rank": 1})
    assert sent.message(1) == received.message(3) == (1, 3, 0)


def test_a_collective_is_no_message() -> None:
    assert collective_of(0, {"Collective name": "allreduce", "Dst Rank": 3}).message(1) is None


def test_operators_tell_the_other_rank_and_the_tag() -> None:
    assert peer_and_tag("c10d::send", [1, 7]) == (1, 7)
    assert peer_and_tag("c10d::broadcast_", [1, 7]) == (NONE, 0)


def test_places_in_a_group_become_ranks_of_all() -> None:
    asked = Collective(0, "send", 8, 8, "float32", "", 0, peer=1)
    (placed,) = with_only_group([asked], (GROUP,))
    assert placed.peer == 6


def test_with_several_groups_nobody_knows_the_other_rank() -> None:
    asked = Collective(0, "send", 8, 8, "float32", "", 0, peer=1)
    (placed,) = with_only_group([asked], (GROUP, GROUP))
    assert placed.peer == NONE
