"""Collectives of captured virtual ranks against those that real ranks issue.

One side: two and four processes that exchange data by Gloo, each of which trains and writes down its
collectives (see ``parallel_program_cases``). Other side: the same programs captured in this process.
Compared, in order: which collective, the bytes of its full buffer, the ranks of its group, and the other rank
of a message.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch

from parallel_program_cases import CASES, OPTIMIZER, PROGRAMS, run_on_real_ranks
from perfcast.core.collective import group_ranks, message_bytes
from perfcast.core.graph import Graph
from perfcast.core.operation import OperationKind
from perfcast.workload.capture.capture import CaptureOptions
from perfcast.workload.parallel_program.capture import ParallelProgram, capture_parallel_program

pytestmark = [
    pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="needs Gloo"),
    # A linear layer's output of three dims is a view; nothing here writes into it.
    pytest.mark.filterwarnings("ignore:FSDP2-wrapped module .* returned a view tensor:UserWarning"),
]


@pytest.fixture(scope="module")
def real_ranks(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[dict[str, Any]]]:
    return run_on_real_ranks(tmp_path_factory.mktemp("ranks"))


@pytest.fixture(scope="module")
def captured() -> Callable[[str, int], ParallelProgram]:
    options = CaptureOptions(for_accelerator=False, optimizer=OPTIMIZER)
    return cache(lambda name, size: capture_parallel_program(PROGRAMS[name], options, size))


def collectives(graph: Graph) -> list[list[Any]]:
    operations = [graph.operations[node.operation] for node in graph.nodes]
    return [
        [o.name, message_bytes(o), list(group_ranks(o)), o.attribute("peer")]
        for o in operations
        if o.kind is OperationKind.COLLECTIVE
    ]


@pytest.mark.parametrize(("name", "world_size"), CASES)
def test_virtual_ranks_issue_the_collectives_of_real_ones_in_order(
    name: str,
    world_size: int,
    real_ranks: dict[int, list[dict[str, Any]]],
    captured: Callable[[str, int], ParallelProgram],
) -> None:
    for rank in captured(name, world_size).ranks:
        assert collectives(rank.graph) == real_ranks[world_size][rank.rank][name], f"rank {rank.rank}"


@pytest.mark.parametrize(("name", "world_size"), CASES)
def test_ranks_that_are_taken_to_be_equal_do_the_same_in_other_groups(
    name: str,
    world_size: int,
    real_ranks: dict[int, list[dict[str, Any]]],
    captured: Callable[[str, int], ParallelProgram],
) -> None:
    program = captured(name, world_size)
    for rank, one in enumerate(program.class_of_rank):
        mine, its = (real_ranks[world_size][r][name] for r in (rank, program.ranks[one].rank))
        assert [(c[0], c[1], len(c[2])) for c in mine] == [(c[0], c[1], len(c[2])) for c in its]
        assert all(rank in c[2] for c in mine)
