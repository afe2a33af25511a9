"""Collectives of captured virtual ranks against those that real ranks issue.

One side: two and four processes that exchange data by Gloo, each of which trains and writes down its
collectives (see ``parallel_program_cases``). Other side: the same programs captured in this process. Compared,
in order: which collective, the bytes of its full buffer, the ranks of its group, and the other rank of a
message.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from parallel_program_cases import CASES, OPTIMIZER, PROGRAMS, run_on_real_ranks
from perfcast.core.collective import group_ranks, message_bytes
from perfcast.core.operation import OperationKind
from perfcast.workload.capture import CaptureOptions
from perfcast.workload.parallel_program import capture_parallel_program
from perfcast.workload.virtual_ranks import RankCapture, RankCaptures

pytestmark = [
    pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="needs Gloo"),
    # A linear layer's output of three dims is a view; nothing here writes into it.
    pytest.mark.filterwarnings("ignore:FSDP2-wrapped module .* returned a view tensor:UserWarning"),
]
OPTIONS = CaptureOptions(for_accelerator=False, optimizer=OPTIMIZER)


@pytest.fixture(scope="module")
def real_ranks(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[dict[str, Any]]]:
    return run_on_real_ranks(tmp_path_factory.mktemp("ranks"))


def collectives(capture: RankCapture) -> list[list[Any]]:
    operations = [capture.graph.operations[node.operation] for node in capture.graph.nodes]
    return [
        [o.name, message_bytes(o), list(group_ranks(o)), o.attribute("peer")]
        for o in operations
        if o.kind is OperationKind.COLLECTIVE
    ]


@pytest.mark.parametrize(("name", "world_size"), CASES)
def test_virtual_ranks_issue_the_collectives_of_real_ones_in_order(
    name: str, world_size: int, real_ranks: dict[int, list[dict[str, Any]]]
) -> None:
    captures = RankCaptures(PROGRAMS[name], OPTIONS, world_size)
    for rank in sorted({0, world_size // 2, world_size - 1}):
        assert collectives(captures.capture(rank)) == real_ranks[world_size][rank][name], f"rank {rank}"


@pytest.mark.parametrize("name", ["sharded", "two axes", "1F1B", "GPipe"])
def test_ranks_that_are_taken_to_be_equal_issue_equal_collectives(
    name: str, real_ranks: dict[int, list[dict[str, Any]]]
) -> None:
    """Of real ranks: the same but for where their groups lie."""
    program = capture_parallel_program(PROGRAMS[name], OPTIONS, 4)
    for rank, one in enumerate(program.class_of_rank):
        other = program.ranks[one].rank
        mine, its = (real_ranks[4][r][name] for r in (rank, other))
        assert [(c[0], c[1], len(c[2])) for c in mine] == [(c[0], c[1], len(c[2])) for c in its]
