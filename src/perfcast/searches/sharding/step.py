"""What a step takes under a placement: phases that end with the last rank.

    step = X(indices) + max F + X(outputs) + X(gradients) + max B + R

with F and B a rank's lookups forward and backward (with the optimizer), X an uneven all-to-all and R the
all-reduce of the gradients of data-parallel tables. Every phase waits for the last rank, so each maximum is
over ranks on its own. Dense layers are the same under every placement and left out; so is what a framework
overlaps of the collectives.

The all-to-all takes as long as an even one of the busiest rank's bytes (max over ranks of max(sent,
received), Lin et al., TPDS 2024). With o the bytes that rank r's pieces produce and O their sum over n ranks,
it sends o (n - 1) / n of them and receives (O - o) / n; gradients and indices go the other way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.searches.sharding.options import IN, OUT, ShardOptions
from perfcast.searches.sharding.problem import ShardingProblem


@dataclass(frozen=True, eq=False)
class PhaseSeconds:
    """Phases of a step under c placements on n ranks.

    Attributes:
        forward, backward: Lookups of every rank, shape [c, n].
        indices, outputs: The all-to-all before the lookups; the one after them (as long as that of its
            gradients); shape [c].
        reduce: All-reduce of the gradients of data-parallel tables, shape [c].
    """

    forward: Floats
    backward: Floats
    indices: Floats
    outputs: Floats
    reduce: Floats

    @property
    def communication(self) -> Floats:
        """All that is between ranks, shape [c]."""
        total: Floats = self.indices + 2 * self.outputs + self.reduce
        return total

    @property
    def step(self) -> Floats:
        """Shape [c]."""
        total: Floats = self.forward.max(axis=1) + self.backward.max(axis=1) + self.communication
        return total


def time_states(
    problem: ShardingProblem, options: ShardOptions, states: Floats, reduced_bytes: Floats
) -> PhaseSeconds:
    """Phases of placements.

    Args:
        states: What lies on every rank, shape [c, n, F + 3]; columns as in ``options``.
        reduced_bytes: Gradients of data-parallel tables, shape [c].
    """
    count, ranks, width = states.shape
    forward, backward = price_lookups(problem, options, states.reshape(-1, width))
    return PhaseSeconds(
        forward.reshape(count, ranks),
        backward.reshape(count, ranks),
        *communication_seconds(problem, _message(states[..., IN]), _message(states[..., OUT]), reduced_bytes),
    )


def price_lookups(problem: ShardingProblem, options: ShardOptions, rows: Floats) -> tuple[Floats, Floats]:
    """Forward and backward seconds of ranks, shape [m] each.

    Args:
        rows: Shape [m, F + 3].
    """
    width = options.forward_width
    return (
        problem.cost.device_seconds(rows[:, :width], "forward"),
        problem.cost.device_seconds(rows[:, width:OUT], "backward"),
    )


def communication_seconds(
    problem: ShardingProblem, index_bytes: Floats, output_bytes: Floats, reduced_bytes: Floats
) -> tuple[Floats, Floats, Floats]:
    """Indices, outputs (one way) and gradients of data-parallel tables, shape [c] each.

    Args:
        index_bytes, output_bytes: Messages of even all-to-alls that take as long (``even_bytes``), [c].
    """
    if problem.num_ranks == 1:
        nothing = np.zeros(len(reduced_bytes))
        return nothing, nothing, nothing
    sizes = np.concatenate([index_bytes, output_bytes])
    both = np.where(sizes > 0, problem.communication.all_to_all_seconds(sizes), 0.0)
    reduced = problem.communication.all_reduce_seconds(reduced_bytes)
    indices, outputs = both[: len(index_bytes)], both[len(index_bytes) :]
    return indices, outputs, np.where(reduced_bytes > 0, reduced, 0.0)


def even_bytes(most: Floats, least: Floats, total: Floats, num_ranks: int) -> Floats:
    """The busiest rank's bytes times n / (n - 1), shape [c]: an even all-to-all of so many takes as long.

    Args:
        most, least, total: Bytes of the ranks' pieces over ranks, shape [c] each.
    """
    mine = most * (num_ranks - 1) / num_ranks
    others = np.maximum(total - least, 0.0) / num_ranks
    even: Floats = np.maximum(mine, others) * num_ranks / max(num_ranks - 1, 1)
    return even


def _message(held: Floats) -> Floats:
    """``even_bytes`` of what every rank holds, shape [c, n] → [c]."""
    return even_bytes(held.max(axis=1), held.min(axis=1), held.sum(axis=1), held.shape[1])
