"""From counted steps of embedding lookups to one time for each case and phase.

Passes over a case, each with its own visits at other times, are joined by their geometric mean; what they
differ by says how well a case is known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.embedding.lookup import EmbeddingLookup
from perfcast.measure.embedding.probes import at_reference, probe_slopes
from perfcast.measure.embedding.runner import EmbeddingRun

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class EmbeddingSample:
    """One measured case.

    Attributes:
        lookups: Of each table, with the reuse that was counted (mean of the batches).
        names, distributions: Of each table.
        forward_seconds, backward_seconds: Of all tables together; backward with the update.
    """

    lookups: tuple[EmbeddingLookup, ...]
    names: tuple[str, ...]
    distributions: tuple[str, ...]
    optimizer: str
    forward_seconds: float
    backward_seconds: float

    def seconds(self, phase: str) -> float:
        """Seconds of 'forward' or 'backward'."""
        return self.forward_seconds if phase == "forward" else self.backward_seconds


@dataclass(frozen=True, slots=True)
class Repeatability:
    """How far two passes over the same cases are apart.

    Attributes:
        num_cases: Measured in both.
        deviation: Standard deviation of ln(second / first), about its mean.
        shift: That mean.
    """

    optimizer: str
    phase: str
    num_cases: int
    deviation: float
    shift: float


def join_runs(runs: Mapping[Key, Sequence[EmbeddingRun]]) -> dict[Key, EmbeddingSample]:
    """One sample of all runs of each case, all for the moment when probes take their median."""
    stated = state_runs([run for mine in runs.values() for run in mine])
    place, joined = 0, {}
    for key, mine in runs.items():
        times = np.exp(np.log(stated[place : place + len(mine)]).mean(axis=0))
        place += len(mine)
        first = mine[0]
        joined[key] = EmbeddingSample(
            first.lookups, first.names, first.distributions, first.optimizer, float(times[0]), float(times[1])
        )
    return joined


def state_runs(runs: Sequence[EmbeddingRun]) -> Floats:
    """Forward and backward seconds of each run at one reference of the probes, shape [runs, 2]."""
    beside = np.array([np.exp(np.log(run.probes).mean(axis=0)) for run in runs])
    reference = np.median(beside, axis=0)
    stated = np.zeros((len(runs), 2))
    members: defaultdict[str, list[int]] = defaultdict(list)
    for at, run in enumerate(runs):
        members[run.optimizer].append(at)
    for mine in members.values():
        probes = [runs[at].probes for at in mine]
        for column, phase in enumerate(("forward", "backward")):
            seconds: list[Floats] = [getattr(runs[at], phase) for at in mine]
            slopes = probe_slopes(seconds, probes)
            stated[mine, column] = [
                at_reference(own, beside, slopes, reference)
                for own, beside in zip(seconds, probes, strict=True)
            ]
    return stated


def measure_repeatability(runs: Sequence[Sequence[EmbeddingRun]]) -> tuple[Repeatability, ...]:
    """First pass against second, of the cases that have both; by optimizer and phase."""
    pairs = [mine[:2] for mine in runs if len(mine) > 1]
    if not pairs:
        return ()
    stated = state_runs([run for pair in pairs for run in pair]).reshape(len(pairs), 2, 2)
    apart = np.log(stated[:, 1] / stated[:, 0])
    optimizers = np.array([pair[0].optimizer for pair in pairs])
    return tuple(
        Repeatability(
            optimizer,
            phase,
            int((optimizers == optimizer).sum()),
            float(apart[optimizers == optimizer, column].std()),
            float(apart[optimizers == optimizer, column].mean()),
        )
        for optimizer in sorted(set(optimizers.tolist()))
        for column, phase in enumerate(("forward", "backward"))
    )
