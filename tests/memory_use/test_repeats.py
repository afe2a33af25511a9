"""Micro-batches that repeat are followed until the allocator settles: the answer is that of following all."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from builders import elementwise, made_up_device
from perfcast.core.forecast.device import ReservedMemory
from perfcast.core.graph import Graph, Node, Phase
from perfcast.core.tensor import Category, Storage
from perfcast.memory_use import reserved
from perfcast.memory_use.repeats import Repeats, find_repeats, fold
from perfcast.memory_use.reserved import context_of, reserve_memory
from perfcast.units import GIB, KIB, MIB

NODES = 12  # of a forward, and of a backward


def accumulating(
    num_micro_batches: int, seed: int, leaks: bool = False, longest: int = 2 * NODES + 4
) -> Graph:
    """Random sizes and lifetimes, alike in every micro-batch; the first makes gradients."""
    draw = random.Random(seed)
    length = 2 * NODES
    end = num_micro_batches * length
    made = []
    for _ in range(30):
        created = draw.randrange(length)
        freed = created + draw.randrange(draw.choice([1, longest]))
        size = draw.choice([512, 100 * KIB, draw.randrange(MIB), draw.randrange(30 * MIB), 5 * MIB]) + 1
        made.append((created, freed, size))
    storages = [Storage(draw.randrange(1, 40 * MIB), Category.PARAMETER, -1, None) for _ in range(4)]
    storages += [Storage(2 * s.num_bytes, Category.OPTIMIZER_STATE, -1, None) for s in storages]
    storages += [
        Storage(s.num_bytes, Category.GRADIENT, NODES + 1 + i, None) for i, s in enumerate(storages[:4])
    ]
    nodes = []
    for unit in range(num_micro_batches):
        at = unit * length
        nodes += [Node(i % 3, Phase.FORWARD, "", (), ()) for i in range(NODES)]
        nodes += [Node(i % 2, Phase.BACKWARD, "", (), ()) for i in range(NODES)]
        for created, freed, size in made:
            storages.append(Storage(size, Category.ACTIVATION, at + created, min(at + freed, end)))
        if leaks:
            storages.append(Storage(MIB, Category.ACTIVATION, at, None if unit % 2 else end))
    nodes += [Node(2, Phase.OPTIMIZER, "", (), ()), Node(2, Phase.OPTIMIZER, "", (), ())]
    storages.append(Storage(7 * MIB, Category.TEMPORARY, end, end))
    return Graph(tuple(nodes), tuple(elementwise(i + 1) for i in range(3)), (), tuple(storages))


def followed(
    graph: Graph, settings: str, memory_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> ReservedMemory:
    """Every micro-batch followed."""
    with monkeypatch.context() as patch:
        patch.setattr(reserved, "find_repeats", lambda graph: None)
        whole = replace(graph, nodes=(*graph.nodes,))  # not what is remembered of the other
        found = reserve_memory(whole, made_up_device(memory_bytes=memory_bytes), settings)
    assert found is not None
    return found


@pytest.mark.parametrize("settings", ["", "expandable_segments:True", "max_split_size_mb:20"])
@pytest.mark.parametrize(("num_micro_batches", "seed"), [(8, 0), (13, 9), (23, 8), (32, 5), (33, 0), (41, 1)])
def test_what_is_reserved_is_the_same_as_with_every_micro_batch_followed(
    num_micro_batches: int, seed: int, settings: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = accumulating(num_micro_batches, seed)
    expected = followed(graph, settings, 80 * GIB, monkeypatch)
    found = reserve_memory(graph, made_up_device(memory_bytes=80 * GIB), settings)
    assert found == expected


def test_a_step_that_settles_at_once_is_not_followed_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = accumulating(500, 6, longest=1)
    monkeypatch.setattr(reserved, "simulate_allocator", lambda *_, **__: pytest.fail("followed to the end"))
    found = reserve_memory(graph, made_up_device(memory_bytes=80 * GIB))
    assert found is not None
    assert found.fits
    assert len(found.reserved_bytes) > 3 * 500 * 30


@pytest.mark.parametrize("share", [0.3, 0.7, 0.9, 0.97, 0.999])
@pytest.mark.parametrize("seed", [7, 8])
def test_steps_that_do_not_fit_or_hardly_fit_fail_and_retry_alike(
    seed: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = accumulating(15, seed)
    device = made_up_device()
    peak = followed(graph, "", 80 * GIB, monkeypatch).peak_bytes
    memory_bytes = context_of(device).num_bytes + int(share * peak)
    for settings in ("", "garbage_collection_threshold:0.5"):
        expected = followed(graph, settings, memory_bytes, monkeypatch)
        assert reserve_memory(graph, made_up_device(memory_bytes=memory_bytes), settings) == expected


def test_micro_batches_that_keep_something_each_do_not_settle(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = accumulating(12, 9, leaks=True)
    expected = followed(graph, "", 80 * GIB, monkeypatch)
    assert reserve_memory(graph, made_up_device(memory_bytes=80 * GIB)) == expected


def test_equal_micro_batches_are_found_and_left_out() -> None:
    graph = accumulating(10, 10)
    repeats = find_repeats(graph)
    assert repeats is not None
    assert (repeats.length, repeats.end) == (2 * NODES, 9 * 2 * NODES)
    folded = fold(graph, repeats, 4)
    assert folded is not None
    assert len(folded.nodes) == len(graph.nodes) - (repeats.count - 4) * 2 * NODES
    assert find_repeats(folded) == Repeats(repeats.start, repeats.length, 4)


@pytest.mark.parametrize("unit", [3, 5, 8])
def test_a_micro_batch_of_other_sizes_ends_the_row(unit: int) -> None:
    graph = accumulating(12, 11)
    at = unit * 2 * NODES
    storages = [
        replace(s, num_bytes=s.num_bytes + 512) if at <= s.created_by < at + 2 * NODES else s
        for s in graph.storages
    ]
    repeats = find_repeats(replace(graph, storages=tuple(storages)))
    assert repeats is not None
    assert repeats.end <= at or repeats.start > at
