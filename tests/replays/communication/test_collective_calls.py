"""Every kind of collective between gloo groups of one process, one thread a rank."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch.distributed as dist

from perfcast.errors import TraceError
from perfcast.replays.communication.calls import start_function
from perfcast.replays.communication.shapes import Shape
from perfcast.traces.events import Collective

SIZE = 2
Tensors = Sequence[torch.Tensor]


@pytest.fixture(scope="module")
def groups() -> list[Any]:
    store = dist.HashStore()
    found: dict[int, Any] = {}

    def make(rank: int) -> None:
        mine = dist.PrefixStore("gloo", store)
        group = dist.ProcessGroup(mine, rank, SIZE)
        kind = dist.ProcessGroup.BackendType.GLOO
        group._set_default_backend(kind)
        group._register_backend(torch.device("cpu"), kind, dist.ProcessGroupGloo(mine, rank, SIZE))
        found[rank] = group

    threads = [threading.Thread(target=make, args=(rank,)) for rank in range(SIZE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[rank] for rank in range(SIZE)]


def exchanged(
    groups: list[Any],
    name: str,
    tensors_of: Callable[[int], tuple[Tensors, Tensors]],
    *,
    root: int = 0,
    splits: Callable[[int], tuple[tuple[int, ...], tuple[int, ...]]] = lambda rank: ((), ()),
    dtype: str = "float32",
) -> list[list[Any]]:
    """What each rank received; ``tensors_of(rank)`` are its tensors (received, sent)."""

    def play(rank: int) -> list[Any]:
        received, sent = tensors_of(rank)
        received_splits, sent_splits = splits(rank)
        shape = Shape(
            tuple(t.numel() for t in received), tuple(t.numel() for t in sent), received_splits, sent_splits
        )
        collective = Collective(7, name, sum(shape.sent), sum(shape.received), dtype, "0", SIZE)
        start = start_function(collective, shape, root, groups[rank], is_asynchronous=True, is_gloo=True)
        start(received, sent).wait()
        return [tensor.flatten().tolist() for tensor in received]

    with ThreadPoolExecutor(SIZE) as pool:
        return list(pool.map(play, range(SIZE)))


def full(rank: int, count: int = 2) -> torch.Tensor:
    """``[10·rank, 10·rank + 1, …]``."""
    return torch.arange(count, dtype=torch.float32) + 10 * rank


def zeros(*counts: int) -> list[torch.Tensor]:
    return [torch.zeros(count) for count in counts]


def same(tensor: torch.Tensor) -> tuple[Tensors, Tensors]:
    return [tensor], [tensor]


def test_an_all_reduce_adds_up_in_place(groups: list[Any]):
    assert exchanged(groups, "allreduce", lambda rank: same(full(rank))) == [[[10.0, 12.0]]] * 2


def test_an_all_reduce_out_of_place_leaves_what_was_sent(groups: list[Any]):
    sent = [full(0), full(1)]
    assert exchanged(groups, "allreduce", lambda rank: (zeros(2), [sent[rank]])) == [[[10.0, 12.0]]] * 2
    assert sent[1].tolist() == [10.0, 11.0]


def test_several_tensors_are_reduced_together(groups: list[Any]):
    def tensors(rank: int) -> tuple[Tensors, Tensors]:
        both = [full(rank), full(rank, 1)]
        return both, both

    assert exchanged(groups, "allreduce_coalesced", tensors) == [[[10.0, 12.0], [10.0]]] * 2


def test_types_that_gloo_cannot_add_are_moved_as_others_of_their_size(groups: list[Any]):
    def tensors(rank: int) -> tuple[Tensors, Tensors]:
        return same(torch.zeros(4, dtype=torch.int16))

    assert exchanged(groups, "allreduce", tensors, dtype="int16") == [[[0, 0, 0, 0]]] * 2


@pytest.mark.parametrize("name", ["all_gather", "_allgather_base"])
def test_all_gather_into_one_tensor_or_one_for_each_rank(groups: list[Any], name: str):
    counts = (2, 2) if name == "all_gather" else (4,)
    found = exchanged(groups, name, lambda rank: (zeros(*counts), [full(rank)]))
    assert [[value for part in parts for value in part] for parts in found] == [[0.0, 1.0, 10.0, 11.0]] * 2


def test_coalesced_all_gathers_fill_each_tensor(groups: list[Any]):
    found = exchanged(
        groups,
        "allgather_into_tensor_coalesced",
        lambda rank: (zeros(4, 2), [full(rank), full(rank, 1)]),
    )
    assert found == [[[0.0, 1.0, 10.0, 11.0], [0.0, 10.0]]] * 2


@pytest.mark.parametrize("name", ["reduce_scatter", "_reduce_scatter_base"])
def test_reduce_scatter_from_one_tensor_or_one_for_each_rank(groups: list[Any], name: str):
    def tensors(rank: int) -> tuple[Tensors, Tensors]:
        whole = full(rank, 4)
        return zeros(2), list(whole.split(2)) if name == "reduce_scatter" else [whole]

    assert exchanged(groups, name, tensors) == [[[10.0, 12.0]], [[14.0, 16.0]]]


def test_coalesced_reduce_scatters(groups: list[Any]):
    found = exchanged(
        groups, "reduce_scatter_tensor_coalesced", lambda rank: (zeros(1, 1), [full(rank), full(rank)])
    )
    assert found == [[[10.0], [10.0]], [[12.0], [12.0]]]


def test_an_uneven_all_to_all_follows_its_splits(groups: list[Any]):
    # rank 0 keeps 1 and sends 2; rank 1 sends 1 and keeps 1
    sent_splits = [(1, 2), (1, 1)]
    found = exchanged(
        groups,
        "all_to_allv",
        lambda rank: (zeros(2 + rank), [full(rank, 3 - rank)]),
        splits=lambda rank: (tuple(splits[rank] for splits in sent_splits), sent_splits[rank]),
    )
    assert found == [[[0.0, 10.0]], [[1.0, 2.0, 11.0]]]


def test_an_even_all_to_all_of_one_tensor_or_of_lists(groups: list[Any]):
    one = exchanged(groups, "all_to_all", lambda rank: (zeros(2), [full(rank)]))
    assert one == [[[0.0, 10.0]], [[1.0, 11.0]]]


def test_roots_are_counted_within_the_group(groups: list[Any]):
    assert exchanged(groups, "broadcast", lambda rank: same(full(rank)), root=1) == [[[10.0, 11.0]]] * 2
    assert exchanged(groups, "reduce", lambda rank: same(full(rank)), root=1)[1] == [[10.0, 12.0]]
    gathered = exchanged(groups, "gather", lambda rank: (zeros(2, 2), [full(rank)]), root=1)
    assert gathered[1] == [[0.0, 1.0], [10.0, 11.0]]
    scattered = exchanged(groups, "scatter", lambda rank: (zeros(1), list(full(rank).split(1))), root=1)
    assert scattered == [[[10.0]], [[11.0]]]


def test_messages_between_two_ranks(groups: list[Any]):
    received = torch.zeros(2)

    def play(rank: int) -> None:
        name, tensors = ("send", ([], [full(3)])) if rank == 0 else ("recv", ([received], []))
        shape = Shape(tuple(t.numel() for t in tensors[0]), tuple(t.numel() for t in tensors[1]), (), ())
        collective = Collective(7, name, 2, 2, "float32", "0", SIZE)
        start_function(collective, shape, 1 - rank, groups[rank], is_asynchronous=True, is_gloo=True)(
            *tensors
        ).wait()

    with ThreadPoolExecutor(SIZE) as pool:
        list(pool.map(play, range(SIZE)))
    assert received.tolist() == [30.0, 31.0]


def test_a_barrier_needs_no_tensor(groups: list[Any]):
    assert exchanged(groups, "barrier", lambda rank: ([], [])) == [[], []]


@pytest.mark.parametrize(
    ("name", "received", "sent", "splits", "message"),
    [
        ("_allgather_base", (3,), (2,), (), "each rank's part must fit"),
        ("_reduce_scatter_base", (2,), (3,), (), "each rank's part must fit"),
        ("all_gather", (2, 2, 2), (2,), (), "one tensor of each rank"),
        ("all_to_all", (3,), (3,), (), "one split for each rank"),
        ("all_to_all", (3,), (3,), (1, 1, 1), "one split for each rank"),
        ("swap", (3,), (3,), (), "knows no collective 'swap'"),
    ],
)
def test_sizes_that_do_not_fit_the_group_are_told(
    groups: list[Any],
    name: str,
    received: tuple[int, ...],
    sent: tuple[int, ...],
    splits: tuple[int, ...],
    message: str,
):
    collective = Collective(7, name, sum(sent), sum(received), "float32", "0", SIZE)
    with pytest.raises(TraceError, match=message):
        start_function(
            collective,
            Shape(received, sent, splits, splits),
            0,
            groups[0],
            is_asynchronous=True,
            is_gloo=True,
        )


def test_a_root_outside_the_group_is_told(groups: list[Any]):
    collective = Collective(7, "broadcast", 2, 2, "float32", "0", SIZE)
    with pytest.raises(TraceError, match="its root or peer 5 is no rank"):
        start_function(
            collective, Shape((2,), (2,), (), ()), 5, groups[0], is_asynchronous=True, is_gloo=True
        )
