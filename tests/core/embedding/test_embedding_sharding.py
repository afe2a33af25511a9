"""What a sharding gives every rank, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from perfcast.core.embedding.lookup import EmbeddingTable, ShardingKind, TablePlacement
from perfcast.core.embedding.reuse import uniform_reuse
from perfcast.core.embedding.sharding import (
    index_bytes_between,
    pooled_bytes_between,
    shard_lookups,
    split_evenly,
    weight_bytes_of_ranks,
)
from perfcast.errors import InputError

BIG = EmbeddingTable("big", 1000, 64, 10.0)
SMALL = EmbeddingTable("small", 10, 64, 2.0)
WHOLE = TablePlacement(ShardingKind.TABLE_WISE, (1,))
ROWS = TablePlacement(ShardingKind.ROW_WISE, (0, 1))
COLUMNS = TablePlacement(ShardingKind.COLUMN_WISE, (0, 1))
COPIED = TablePlacement(ShardingKind.DATA_PARALLEL, (0, 1))


def test_a_table_on_one_rank_is_looked_up_there_for_all_samples():
    first, second = shard_lookups([BIG], [WHOLE], 2, 128)
    assert first == ()
    assert (second[0].num_rows, second[0].dim, second[0].batch_size, second[0].pooling) == (1000, 64, 128, 10)


def test_rows_share_lookups_and_columns_share_width():
    by_rows, _ = shard_lookups([BIG], [ROWS], 2, 128)
    assert (by_rows[0].num_rows, by_rows[0].dim, by_rows[0].pooling) == (500, 64, 5.0)
    by_columns, _ = shard_lookups([BIG], [COLUMNS], 2, 128)
    assert (by_columns[0].num_rows, by_columns[0].dim, by_columns[0].pooling) == (1000, 32, 10.0)


def test_a_copied_table_is_looked_up_for_own_samples():
    first, _ = shard_lookups([SMALL], [COPIED], 2, 128)
    assert first[0].batch_size == 64


def test_reuse_follows_the_shard():
    reuse = uniform_reuse(1000, 1280)
    table = EmbeddingTable("t", 1000, 64, 10.0, reuse=reuse)
    (part,), _ = shard_lookups([table], [ROWS], 2, 128)
    assert part.reuse is not None
    assert part.reuse.num_lookups == pytest.approx(640)
    (half,), _ = shard_lookups([table], [COPIED], 2, 128)
    assert half.reuse is not None
    assert half.reuse.num_lookups == pytest.approx(640)
    assert half.reuse.num_rows == pytest.approx(uniform_reuse(1000, 640).num_rows, rel=0.02)


def test_weights_are_held_once_and_copies_by_all():
    held = weight_bytes_of_ranks([BIG, SMALL], [ROWS, COPIED], 2)
    assert held.tolist() == [128_000 + 2560] * 2


def test_pooled_rows_of_one_rank_go_to_all():
    # 64 samples of each of the two ranks, 64 elements of 4 bytes.
    sent = pooled_bytes_between([BIG], [WHOLE], 2, 128)
    assert sent.tolist() == [[0, 0], [64 * 64 * 4] * 2]
    # Partial sums of row shards are of the whole width, columns of half.
    assert pooled_bytes_between([BIG], [ROWS], 2, 128)[0].tolist() == [64 * 64 * 4] * 2
    assert pooled_bytes_between([BIG], [COLUMNS], 2, 128)[0].tolist() == [64 * 32 * 4] * 2
    assert not pooled_bytes_between([BIG], [COPIED], 2, 128).any()


def test_indices_and_lengths_travel_to_the_rows():
    # 64 samples x (10 indices + a length) x 8 bytes.
    sent = index_bytes_between([BIG], [WHOLE], 2, 128)
    assert np.array_equal(sent, np.array([[0, 64 * 11 * 8], [0, 64 * 11 * 8]]))
    assert index_bytes_between([BIG], [ROWS], 2, 128)[0].tolist() == [64 * 6 * 8] * 2


def test_parts_differ_by_at_most_one():
    assert split_evenly(10, 4) == [3, 3, 2, 2]


@pytest.mark.parametrize(
    ("placement", "batch"),
    [
        (TablePlacement(ShardingKind.TABLE_WISE, (2,)), 128),
        (TablePlacement(ShardingKind.DATA_PARALLEL, (0,)), 128),
        (WHOLE, 127),
    ],
)
def test_a_sharding_that_cannot_be_followed_is_refused(placement: TablePlacement, batch: int):
    with pytest.raises(InputError):
        shard_lookups([BIG], [placement], 2, batch)
