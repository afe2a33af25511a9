import pytest

from made_up_sharding import random_tables, table
from perfcast.errors import InputError
from perfcast.searches.sharding.inputs.tasks import HEAVY_POOLING, WIDTHS, draw_tasks, with_drawn_widths


def test_tasks_have_between_seven_and_thirteen_tenths_of_13_tables_a_device():
    tasks = draw_tasks(random_tables(200, 0), 4, 1e12, num_heavy=0, num_others=200)
    counts = [len(task.tables) for task in tasks]
    assert min(counts) >= int(0.7 * 13 * 4)
    assert max(counts) < 1.3 * 13 * 4
    assert max(counts) - min(counts) > 20


def test_heavy_tasks_come_first_and_hold_tables_with_many_lookups_alone():
    tasks = draw_tasks(random_tables(300, 1), 2, 1e12, num_heavy=3, num_others=4)
    assert [task.is_heavy for task in tasks] == [True] * 3 + [False] * 4
    assert all(one.pooling >= HEAVY_POOLING for task in tasks[:3] for one in task.tables)


def test_tables_that_are_never_looked_up_are_left_out_and_none_comes_twice():
    pool = (*random_tables(60, 2), *(table(f"idle{i}", pooling=0) for i in range(60)))
    for task in draw_tasks(pool, 2, 1e12, num_heavy=0, num_others=5):
        names = [one.name for one in task.tables]
        assert len(set(names)) == len(names)
        assert not any(name.startswith("idle") for name in names)


def test_tasks_fill_at_most_eight_tenths_of_the_memory():
    pool = random_tables(100, 3, most_rows=1e6)
    total = 4 * sum(one.num_elements for one in pool)
    memory = total / 8
    for task in draw_tasks(pool, 2, memory, num_heavy=0, num_others=10):
        assert 4 * sum(one.num_elements for one in task.tables) <= 0.8 * 2 * memory
    with pytest.raises(InputError, match="no task fits 2 devices"):
        draw_tasks(pool, 2, 1000.0)


def test_too_small_a_pool_says_so():
    with pytest.raises(InputError, match="from a pool of 5"):
        draw_tasks(random_tables(5, 0), 8, 1e12, num_heavy=0)


def test_a_seed_makes_the_same_tasks_and_widths():
    pool = random_tables(200, 0)
    assert draw_tasks(pool, 2, 1e12, seed=7) == draw_tasks(pool, 2, 1e12, seed=7)
    widths = [one.dim for one in with_drawn_widths(pool)]
    assert set(widths) == set(WIDTHS)
    assert widths == [one.dim for one in with_drawn_widths(pool)]
