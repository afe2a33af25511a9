import pytest

from made_up_sharding import LinearCommunication, problem, table
from perfcast.core.embedding.lookup import ShardingKind
from perfcast.errors import PlanError
from perfcast.searches.sharding.greedy import (
    Unplaced,
    cut_large,
    place_greedily,
    place_to_fit,
    replicate_small,
)
from perfcast.searches.sharding.options import MEMORY, list_options
from perfcast.searches.sharding.placement import Placed, fits


def test_the_slowest_table_comes_first_and_the_least_busy_rank_takes_the_next():
    tables = (table("a", pooling=10), table("b", pooling=40), table("c", pooling=20), table("d", pooling=15))
    task = problem(tables)
    options = list_options(task)
    placed = place_greedily(task, options, [int(option) for option in options.first])
    assert isinstance(placed, Placed)
    # b: 0; c, then d: 1; a: 1 has 35 against 40.
    assert placed.ranks == ((1,), (0,), (1,), (1,))


def test_a_table_too_large_for_a_device_is_cut_into_as_few_pieces_as_fit():
    task = problem((table("a", num_rows=100_000, dim=64), table("b")), num_ranks=4, memory_bytes=14e6)
    options = list_options(task)
    placed = place_to_fit(task, options)
    assert fits(task, options, placed)
    assert options.parts[placed.options[0]] == 2
    assert options.parts[placed.options[1]] == 1


def test_a_table_of_which_no_piece_fits_is_named_with_what_is_missing():
    task = problem((table("small"), table("huge", num_rows=10_000_000)), num_ranks=2, memory_bytes=1e6)
    with pytest.raises(PlanError, match=r"'huge'.*1\.19 GiB.*are missing"):
        place_to_fit(task, list_options(task))


def test_too_many_tables_name_the_one_without_room_and_the_device():
    task = problem(tuple(table(f"t{i}") for i in range(5)), num_ranks=2, memory_bytes=600_000)
    with pytest.raises(PlanError, match=r"'t\d' finds no room: device \d.*lacks .*2 devices have 1\.14 MiB"):
        place_to_fit(task, list_options(task))


def test_packing_by_memory_fits_where_the_order_by_time_does_not():
    # By time: the two quick large tables come last and find both ranks half full.
    slow = [table(f"slow{i}", num_rows=700, pooling=50) for i in range(3)]
    large = table("large", num_rows=2000, pooling=1)
    task = problem((*slow, large))
    options = list_options(task)
    limit = float(sum(options.rows[options.first[:3], MEMORY])) * 1.001
    tight = problem((*slow, large), memory_bytes=limit, kinds=(ShardingKind.TABLE_WISE,))
    options = list_options(tight)
    whole = [int(option) for option in options.first]
    assert isinstance(place_greedily(tight, options, whole), Unplaced)
    assert isinstance(place_greedily(tight, options, whole, by_memory=True), Placed)
    assert fits(tight, options, place_to_fit(tight, options))


def test_only_tables_that_fill_a_rank_are_cut():
    tables = (table("giant", pooling=1000), *(table(f"t{i}", pooling=10) for i in range(8)))
    task = problem(tables, num_ranks=4)
    options = list_options(task)
    choice = cut_large(task, options, place_to_fit(task, options))
    assert options.parts[choice[0]] > 1
    assert [int(options.parts[option]) for option in choice[1:]] == [1] * 8


def test_small_tables_with_much_to_send_are_replicated_and_large_ones_are_not():
    tables = (table("tiny", num_rows=4, dim=64, pooling=1), table("large", num_rows=1_000_000, dim=64))
    task = problem(tables, num_ranks=4, communication=LinearCommunication(1e6), global_batch_size=4096)
    options = list_options(task)
    choice = replicate_small(task, options, [int(option) for option in options.first])
    assert options.is_replicated(choice[0])
    assert not options.is_replicated(choice[1])
