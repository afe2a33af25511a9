import pytest

from made_up_sharding import problem, table
from perfcast.errors import InputError, UnknownNameError


def test_a_rank_takes_an_equal_part_of_the_batch():
    assert problem((table("a"),), num_ranks=4, global_batch_size=64).local_batch_size == 16


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"global_batch_size": 10}, "take 12"),
        ({"global_batch_size": 0}, "take 4"),
        ({"num_ranks": 0, "global_batch_size": 8}, "at least one"),
    ],
)
def test_a_batch_that_ranks_cannot_share_is_refused_with_one_that_they_can(changes, said):
    with pytest.raises(InputError, match=said):
        problem((table("a"),), **({"num_ranks": 4} | changes))


def test_no_table_and_tables_of_one_name_are_refused():
    with pytest.raises(InputError, match="no table"):
        problem(())
    with pytest.raises(InputError, match="same name"):
        problem((table("a"), table("a")))


def test_an_unknown_optimizer_lists_those_that_are_known():
    with pytest.raises(UnknownNameError, match="rowwise_adagrad"):
        problem((table("a"),), optimizer="rowwise")
