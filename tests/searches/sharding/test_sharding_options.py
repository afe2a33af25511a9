import numpy as np
import pytest

from made_up_sharding import problem, table
from perfcast.core.embedding.lookup import EmbeddingTable, ShardingKind
from perfcast.core.embedding.reuse import count_reuse
from perfcast.searches.sharding.options import IN, MEMORY, OUT, list_options

WHOLE, ROWS = ShardingKind.TABLE_WISE, ShardingKind.ROW_WISE
COLUMNS, EVERYWHERE = ShardingKind.COLUMN_WISE, ShardingKind.DATA_PARALLEL


def test_bytes_of_a_whole_table_are_those_worked_out_by_hand():
    options = list_options(problem((table("a", num_rows=1000, dim=64, pooling=10),), global_batch_size=16))
    outputs, indices = 16 * 64 * 4, 16 * 11 * 8
    assert options.rows[0, OUT] == outputs
    assert options.rows[0, IN] == indices
    assert options.rows[0, MEMORY] == 1000 * 64 * 4 + indices + 2 * outputs


@pytest.mark.parametrize(("optimizer", "more"), [("sgd", 0), ("rowwise_adagrad", 4000), ("adagrad", 256_000)])
def test_optimizer_states_are_kept_beside_the_weights(optimizer, more):
    plain = list_options(problem((table("a"),)))
    with_states = list_options(problem((table("a"),), optimizer=optimizer))
    assert with_states.rows[0, MEMORY] - plain.rows[0, MEMORY] == more


def test_pieces_of_columns_share_bytes_and_repeat_indices():
    options = list_options(problem((table("a", dim=64),), num_ranks=4))
    cut = options.find(0, COLUMNS, 4)
    assert options.rows[cut, OUT] * 4 == options.rows[0, OUT]
    assert options.rows[cut, IN] == options.rows[0, IN]


def test_pieces_of_rows_share_lookups_and_repeat_outputs():
    options = list_options(problem((table("a", num_rows=1000, pooling=10),), num_ranks=4))
    cut = options.find(0, ROWS, 4)
    assert options.rows[cut, OUT] == options.rows[0, OUT]
    assert options.rows[cut, IN] == 32 * (10 / 4 + 1) * 8
    assert options.rows[cut, 0] * 4 == pytest.approx(options.rows[0, 0])


def test_a_replicated_table_exchanges_nothing_but_its_gradient():
    options = list_options(problem((table("a", num_rows=100, dim=16),), num_ranks=4))
    copied = options.find(0, EVERYWHERE, 1)
    assert options.is_replicated(copied)
    assert options.rows[copied, OUT] == options.rows[copied, IN] == 0
    assert options.reduced_bytes[copied] == 100 * 16 * 4
    assert options.rows[copied, 0] * 4 == pytest.approx(options.rows[0, 0])


def test_columns_are_never_cut_narrower_than_a_cache_line():
    options = list_options(problem((table("a", dim=64),), num_ranks=64))
    assert max(options.parts[o] for o in options.of_table(0) if options.kinds[o] is COLUMNS) == 64 * 4 // 64


def test_a_table_with_fewer_rows_than_ranks_is_not_cut_into_more():
    options = list_options(problem((table("a", num_rows=3),), num_ranks=8))
    assert [int(options.parts[o]) for o in options.of_table(0) if options.kinds[o] is ROWS] == [2]


def test_one_rank_leaves_every_table_whole():
    assert list_options(problem((table("a"), table("b")), num_ranks=1)).kinds == (WHOLE, WHOLE)


def test_only_the_ways_that_are_allowed_are_listed_and_whole_always():
    options = list_options(problem((table("a"),), num_ranks=4, kinds=(COLUMNS,)))
    assert set(options.kinds) == {WHOLE, COLUMNS}


def test_a_cut_from_elsewhere_is_listed_with_its_table():
    options = list_options(problem((table("a"), table("b")), num_ranks=8), [(0, ROWS, 3)])
    assert options.find(0, ROWS, 3) is not None
    assert options.find(1, ROWS, 3) is None
    assert [int(options.tables[o]) for o in options.of_table(1)] == [1] * len(options.of_table(1))


def test_reuse_of_a_sample_is_carried_to_the_batch():
    seen = count_reuse(np.repeat(np.arange(50), 4))
    reused = EmbeddingTable("a", 1000, 64, 10.0, reuse=seen)

    class Unique:
        relative_spread = 0.1

        def table_vectors(self, columns, phase):
            return columns.unique_rows[:, None]

        def device_seconds(self, summed, phase):
            return summed[:, 0]

    options = list_options(problem((reused,), num_ranks=2, cost=Unique(), global_batch_size=20))
    assert options.rows[0, 0] == pytest.approx(50)
