"""What is alive at a node, equal blocks together."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from perfcast.core.forecast.device import TensorInterval
from perfcast.memory_use.alive import alive_at, join_paths


def interval(
    num_bytes: int = 8, created: int = 0, freed: int = 9, module: str = "h.0.mlp", **more: str
) -> TensorInterval:
    return TensorInterval(
        num_bytes,
        "activation",
        created,
        more.get("name", "mm"),
        module,
        freed,
        freed,
        more.get("line", "a.py:1"),
    )


def test_a_block_is_alive_from_the_node_that_makes_it_to_the_last_before_it_is_freed() -> None:
    blocks = [interval(created=2, freed=4)]
    assert [len(alive_at(blocks, node)) for node in (1, 2, 4, 5)] == [0, 1, 1, 0]


def test_what_was_there_before_is_alive_at_the_first_node() -> None:
    assert len(alive_at([interval(created=-1)], 0)) == 1


def test_equal_blocks_of_neighbouring_layers_are_one_group_named_by_their_range() -> None:
    (group,) = alive_at([interval(module=f"h.{i}.mlp") for i in range(4)], 0)
    assert (group.count, group.num_bytes, group.total_bytes, group.module) == (4, 8, 32, "h.0–3.mlp")


def test_blocks_of_another_size_line_operation_or_module_are_groups_of_their_own() -> None:
    blocks = [
        interval(),
        interval(9),
        interval(line="a.py:2"),
        interval(name="add"),
        interval(module="h.0.attn"),
    ]
    assert len(alive_at(blocks, 0)) == 5


def test_the_group_with_most_bytes_comes_first() -> None:
    blocks = [interval(30, module="head"), *(interval(8, module=f"h.{i}") for i in range(4))]
    assert [group.total_bytes for group in alive_at(blocks, 0)] == [32, 30]


def test_paths_that_differ_in_numbers_are_joined_by_range_list_or_ends() -> None:
    assert join_paths(["h.0.mlp", "h.1.mlp", "h.1.mlp"]) == "h.0–1.mlp"
    assert join_paths(["h.0", "h.4"]) == "h.0,4"
    assert join_paths(["h.0", "h.2", "h.4", "h.9"]) == "h.0…9"
    assert join_paths(["h.0.e.0", "h.0.e.1", "h.1.e.0", "h.1.e.1"]) == "h.0–1.e.0–1"
    assert join_paths([""]) == ""


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(-1, 9), st.integers(0, 9), st.integers(0, 3))))
def test_groups_hold_what_the_blocks_hold(rows: list[tuple[int, int, int, int]]) -> None:
    blocks = [interval(n, c, max(c, f), f"h.{layer}") for n, c, f, layer in rows]
    for node in range(10):
        alive = [b for b in blocks if max(b.created_by, 0) <= node <= b.freed_after]
        groups = alive_at(blocks, node)
        assert sum(group.total_bytes for group in groups) == sum(b.num_bytes for b in alive)
        assert sum(group.count for group in groups) == len(alive)
