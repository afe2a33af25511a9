import numpy as np
import pytest

from made_up_sharding import LinearCommunication, problem, random_tables, table
from perfcast.core.embedding.lookup import ShardingKind, TablePlacement
from perfcast.core.embedding.sharding import index_bytes_between, pooled_bytes_between
from perfcast.cost.collective.table import uneven_bytes
from perfcast.searches.sharding.options import list_options
from perfcast.searches.sharding.placement import Placed, from_placements, time_placements
from perfcast.searches.sharding.step import even_bytes

WHOLE = ShardingKind.TABLE_WISE


def test_a_step_is_the_sum_of_its_phases_each_as_long_as_its_slowest_rank():
    # 16 samples, 10 lookups of 64 columns: 10,240 elements; and 20 lookups of 32 columns: as many.
    task = problem((table("a", dim=64, pooling=10), table("b", dim=32, pooling=20)))
    phases = time_placements(task, list_options(task), [Placed(*_whole(task, [0, 1]))])
    lookups = 10_240e-9 + 1e-6
    assert phases.forward[0] == pytest.approx([lookups, lookups])
    assert phases.backward[0] == pytest.approx([20_480e-9 + 1e-6] * 2)
    indices = 16 * 21 * 8  # the second table's: half of them are sent, and n / (n - 1) = 2
    assert phases.indices[0] == pytest.approx(indices / 1e9)
    outputs = 16 * 64 * 4
    assert phases.outputs[0] == pytest.approx(outputs / 1e9)
    expected = lookups + 20_480e-9 + 1e-6 + indices / 1e9 + 2 * outputs / 1e9
    assert phases.step[0] == pytest.approx(expected)


def _whole(task, ranks):
    first = list_options(task).first
    return tuple(int(option) for option in first), tuple((rank,) for rank in ranks)


def test_a_rank_that_receives_more_than_any_sends_sets_the_collective():
    # One of four ranks holds nothing: it receives 3 · 100 / 4 = 75, others send 100 · 3 / 4 and receive 50.
    assert even_bytes(np.array([100.0]), np.array([0.0]), np.array([300.0]), 4) == pytest.approx([100.0])
    # Two of four hold 100: they send 75 and receive 25; the others receive 50.
    assert even_bytes(np.array([100.0]), np.array([0.0]), np.array([200.0]), 4) == pytest.approx([100.0])


def test_collectives_agree_with_the_matrices_of_what_ranks_send_each_other():
    task = problem(random_tables(6, 0, most_rows=5000), num_ranks=4, global_batch_size=64)
    plan = [
        TablePlacement(WHOLE, (0,)),
        TablePlacement(ShardingKind.ROW_WISE, (1, 2, 3, 0)),
        TablePlacement(WHOLE, (2,)),
        TablePlacement(ShardingKind.DATA_PARALLEL, (0, 1, 2, 3)),
        TablePlacement(ShardingKind.ROW_WISE, (1, 3)),
        TablePlacement(WHOLE, (1,)),
    ]
    options = list_options(task)
    phases = time_placements(task, options, [from_placements(task, options, plan)])
    pooled = uneven_bytes(pooled_bytes_between(task.tables, plan, 4, 64))
    indices = uneven_bytes(index_bytes_between(task.tables, plan, 4, 64))
    assert phases.outputs[0] * 1e9 == pytest.approx(pooled)
    assert phases.indices[0] * 1e9 == pytest.approx(indices)


def test_an_empty_rank_takes_no_time_and_one_rank_exchanges_nothing():
    two = problem((table("a"),))
    phases = time_placements(two, list_options(two), [Placed(*_whole(two, [1]))])
    assert phases.forward[0, 0] == phases.backward[0, 0] == 0
    one = problem((table("a"),), num_ranks=1, communication=LinearCommunication(1.0))
    assert time_placements(one, list_options(one), [Placed(*_whole(one, [0]))]).communication[0] == 0


def test_replicated_tables_alone_exchange_their_gradients_alone():
    task = problem((table("a", num_rows=100, dim=16),), num_ranks=4)
    options = list_options(task)
    placed = from_placements(task, options, [TablePlacement(ShardingKind.DATA_PARALLEL, (0, 1, 2, 3))])
    phases = time_placements(task, options, [placed])
    assert phases.indices[0] == phases.outputs[0] == 0
    assert phases.reduce[0] == pytest.approx(2 * 100 * 16 * 4 / 1e9)
