"""The peak of one rank of a parallelised step, against PyTorch's memory tracker on real ranks.

Compared is the second of two training steps with AdamW. One side: two processes that exchange data by
Gloo, each watched by ``MemTracker``, which adds up the storages of parameters, buffers, gradients,
optimizer state, inputs and whatever an operator returns, for as long as the program holds them and with
the size that they have. Other side: the same program captured on a virtual rank, nothing allocated.

The tracker does not see what an operator allocates for itself, and neither does a capture: the copies
within Gloo's collectives are left out (see ``TrackerOutsideOfCollectives``), as those of a processor's
kernels are. The processor runs everything in order on one stream; on a GPU the same program holds the
same storages at the same nodes, but its caching allocator may give freed bytes to other streams later.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from parallel_programs import MICRO_BATCHES, PROGRAMS, optimizer_of, run_on_real_ranks
from perfcast.core.collective import group_ranks, message_bytes
from perfcast.core.graph import Graph
from perfcast.core.operation import OperationKind
from perfcast.memory_use.liveness import estimate_memory
from perfcast.workload.capture.capture import CaptureOptions
from perfcast.workload.parallel_program.virtual_ranks import capture_on_virtual_rank

pytestmark = [
    pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="needs Gloo"),
    # A linear layer's output of three dims is a view; nothing here writes into it.
    pytest.mark.filterwarnings("ignore:FSDP2-wrapped module .* returned a view tensor:UserWarning"),
]

WORLD_SIZE = 2
#: Programs whose ranks differ are compared on both, the others on one.
CASES = [(name, 0) for name in PROGRAMS] + [("uneven", 1), ("tensor parallel", 1)]


@pytest.fixture(scope="module")
def real_ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return run_on_real_ranks(WORLD_SIZE, tmp_path_factory.mktemp("ranks"))


@pytest.fixture(scope="module")
def virtual_ranks() -> dict[tuple[str, int], Graph]:
    def capture(name: str, rank: int) -> Graph:
        options = CaptureOptions(
            for_accelerator=False, optimizer=optimizer_of(name), num_micro_batches=MICRO_BATCHES.get(name, 1)
        )
        return capture_on_virtual_rank(PROGRAMS[name], options, rank=rank, world_size=WORLD_SIZE)[0]

    return {case: capture(*case) for case in CASES}


@pytest.mark.parametrize(("name", "rank"), CASES)
def test_the_peak_of_a_rank_equals_the_trackers_to_the_byte(
    name: str, rank: int, real_ranks: list[dict[str, Any]], virtual_ranks: dict[tuple[str, int], Graph]
) -> None:
    peak = estimate_memory(virtual_ranks[name, rank], 0).peak_bytes
    assert peak == real_ranks[rank][name]["peak_bytes"]


@pytest.mark.parametrize(("name", "rank"), CASES)
def test_a_rank_issues_the_collectives_of_a_real_one_in_order(
    name: str, rank: int, real_ranks: list[dict[str, Any]], virtual_ranks: dict[tuple[str, int], Graph]
) -> None:
    """Which collective, the bytes of its full buffer, and the ranks of its group."""
    graph = virtual_ranks[name, rank]
    operations = [graph.operations[node.operation] for node in graph.nodes]
    found = [
        [operation.name, message_bytes(operation), list(group_ranks(operation))]
        for operation in operations
        if operation.kind is OperationKind.COLLECTIVE
    ]
    assert found
    assert found == real_ranks[rank][name]["collectives"]


def test_most_of_these_steps_peak_in_forward_or_backward(
    virtual_ranks: dict[tuple[str, int], Graph],
) -> None:
    """Otherwise the comparison would say little about weights that are gathered and freed again."""
    phases = [estimate_memory(graph, 0).peak_phase for graph in virtual_ranks.values()]
    assert phases.count("optimizer") <= len(phases) // 3


def test_weights_that_are_freed_after_the_forward_take_no_more_than_weights_that_are_kept(
    virtual_ranks: dict[tuple[str, int], Graph],
) -> None:
    """Less until torch 2.14; since 2.15 both peak in the backward of the last layer."""
    freed, kept = (virtual_ranks[name, 0] for name in ("mlp", "mlp, weights kept"))
    assert estimate_memory(freed, 0).peak_bytes <= estimate_memory(kept, 0).peak_bytes
    gathers = [
        sum(graph.operations[node.operation].name == "all_gather" for node in graph.nodes)
        for graph in (freed, kept)
    ]
    assert gathers == [6, 3]  # three layers, in the forward and again in the backward
