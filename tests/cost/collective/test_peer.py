"""All-reduces of serving frameworks by hand."""

from __future__ import annotations

import numpy as np
import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.collective import collective_operation
from perfcast.cost.collective.peer import (
    BARRIER_SECONDS,
    ONE_SHOT_SHARE,
    START_SECONDS,
    STEP_SECONDS,
    TWO_SHOT_SHARE,
    peer_all_reduce,
)
from perfcast.cost.prices import price_communication
from perfcast.units import GIGA, KIB, MIB

H100 = load_cluster("dgx-h100:16")
RATE = 450 * GIGA


def seconds(size: float, ranks: int = 4) -> float:
    return float(peer_all_reduce(H100, (ranks, 1), np.array([float(size)]))[0])


def test_a_short_message_is_read_whole_from_every_other_rank():
    read = 3 * 16 * KIB / (RATE * ONE_SHOT_SHARE)
    assert seconds(16 * KIB) == pytest.approx(START_SECONDS + 3 * STEP_SECONDS + read)


def test_a_long_message_is_added_up_in_parts():
    moved = 2 * 3 / 4 * 64 * MIB / (RATE * TWO_SHOT_SHARE)
    assert seconds(64 * MIB) == pytest.approx(START_SECONDS + 3 * STEP_SECONDS + BARRIER_SECONDS + moved)


def test_ranks_of_two_nodes_or_behind_pcie_read_nothing_of_each_other():
    size = np.array([1024.0])
    assert np.isinf(peer_all_reduce(H100, (8, 2), size)).all()
    assert np.isinf(peer_all_reduce(load_cluster("l40s-pcie:4"), (4,), size)).all()


def test_it_is_taken_where_it_is_faster_than_nccl():
    plain, peer = (
        collective_operation("all_reduce", 16 * KIB, range(4), reads_peers=reads) for reads in (False, True)
    )
    times = price_communication((plain, peer), H100)
    assert times.seconds[1] == pytest.approx(seconds(16 * KIB))
    assert times.seconds[1] < times.seconds[0]
    assert times.seconds_low[1] < times.seconds[1] < times.seconds_high[1]
