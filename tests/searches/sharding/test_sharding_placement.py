import numpy as np
import pytest

from made_up_sharding import problem, random_tables, table
from perfcast.core.embedding.lookup import ShardingKind, TablePlacement
from perfcast.errors import PlanError
from perfcast.searches.sharding.choose import choose_sharding
from perfcast.searches.sharding.options import list_options
from perfcast.searches.sharding.placement import Placed, from_placements, state_of, to_placements


def test_a_plan_goes_out_and_comes_back_the_same():
    task = problem(random_tables(9, 1), num_ranks=4)
    options = list_options(task)
    plan = choose_sharding(task).placements
    assert to_placements(task, options, from_placements(task, options, plan)) == plan


def test_a_state_counts_every_piece_where_it_lies():
    task = problem((table("a"), table("b")), num_ranks=2)
    options = list_options(task)
    rows = options.rows
    cut, copied = options.find(0, ShardingKind.COLUMN_WISE, 2), options.find(1, ShardingKind.DATA_PARALLEL, 1)
    state, reduced = state_of(Placed((cut, copied), ((1, 1), ())), options, 2)
    assert np.allclose(state, [rows[copied], 2 * rows[cut] + rows[copied]])
    assert reduced == options.reduced_bytes[copied]


@pytest.mark.parametrize(
    ("placement", "said"),
    [
        (TablePlacement(ShardingKind.TABLE_WISE, (4,)), "rank 4 of 4"),
        (TablePlacement(ShardingKind.DATA_PARALLEL, (0, 1)), "on all ranks"),
        (TablePlacement(ShardingKind.ROW_WISE, (0, 1, 2)), "cannot be cut row_wise into 3"),
    ],
)
def test_a_plan_of_other_ranks_or_cuts_is_refused(placement, said):
    task = problem((table("a"),), num_ranks=4)
    with pytest.raises(PlanError, match=said):
        from_placements(task, list_options(task), [placement])


def test_a_plan_of_another_number_of_tables_is_refused():
    task = problem((table("a"),), num_ranks=4)
    with pytest.raises(PlanError, match="0 placements of 1 tables"):
        from_placements(task, list_options(task), [])
