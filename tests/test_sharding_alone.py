"""Makespans of separately measured ranks, as ``benchmarks/sharding_alone.py`` reads them."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

A, B, C = (0, 1, 0), (1, 1, 0), (2, 1, 0)


@pytest.fixture(scope="module")
def alone() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent.parent / "benchmarks"))
        return importlib.import_module("sharding_alone")


def answers(ranks, seconds, speeds):
    """Turns in which every piece takes its seconds times the turn's speed, backward twice as long."""
    return [
        [
            [[[seconds[p] * s for p in rank], [2 * seconds[p] * s for p in rank]] for rank in ranks]
            for s in speeds
        ]
    ]


def test_a_makespan_is_the_slowest_ranks_forward_and_backward_whatever_a_turns_speed(alone):
    ranks = ((A, B), (C,))
    plan = alone.Plan(("naive",), ranks, ((1.0, 2.0), (3.0, 1.0)))
    assert plan.predicted_seconds == 5.0
    found = answers(ranks, {A: 1.0, B: 2.0, C: 2.5}, [1.0, 1.0, 3.0, 1.0])
    result = alone.read_task("one", [plan], found)["plans"][0]
    for way in ("placement", "table"):
        assert result[way] == pytest.approx([9.0] * 3)


def test_by_table_a_piece_counts_by_all_its_turns_and_by_placement_by_its_own(alone):
    plans = [alone.Plan((name,), ((A,), (B,)), ((1.0, 1.0), (1.0, 1.0))) for name in ("naive", "random")]
    first = answers(plans[0].ranks, {A: 1.0, B: 1.0}, [1.0] * 3)
    second = answers(plans[1].ranks, {A: 3.0, B: 3.0}, [1.0] * 5)
    rows = alone.read_task("one", plans, [*first, *second])["plans"]
    assert [row["placement"][0] for row in rows] == pytest.approx([3.0, 9.0])
    assert rows[0]["table"][0] == rows[1]["table"][0] == pytest.approx(9.0)


def test_the_best_is_by_what_is_asked(alone):
    rows = [
        {"predicted": 1.0, "table": [5.0, 1.0, 9.0]}, {"predicted": 2.0, "table": [4.0, 2.0, 1.0]},
    ]  # fmt: skip
    assert alone.best(rows, "predicted") is rows[0]
    assert [alone.best(rows, "table", part) is rows[0] for part in range(3)] == [False, True, False]


def test_slices_of_columns_are_pieces_of_their_own_ranks(alone):
    from perfcast.core.embedding.lookup import ShardingKind, TablePlacement

    placements = [
        TablePlacement(ShardingKind.COLUMN_WISE, (0, 3)), TablePlacement(ShardingKind.TABLE_WISE, (3,)),
    ]  # fmt: skip
    assert alone.ranks_of(placements) == (((0, 2, 0),), (), (), ((0, 2, 1), (1, 1, 0)))


def test_pieces_are_looked_up_and_updated(alone):
    from perfcast.core.embedding.lookup import EmbeddingTable

    tables = [EmbeddingTable("a", 100, 8, 2.0), EmbeddingTable("b", 50, 4, 1.0)]
    pieces = alone.Pieces(tables, ("uniform", "zipf-0.9"), seed=0)
    for piece in (A, B):
        pieces.hold(piece)
    seconds = pieces.run((A, B), turn=0)
    assert seconds.shape == (2, 2)
    assert (seconds > 0).all()
    assert not np.allclose(pieces.bags[A][0].weight.detach().numpy(), 0.5, atol=1e-9)
