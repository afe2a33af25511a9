"""Fit the learned cost of embedding lookups to what was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perfcast.core.embedding.lookup import EmbeddingLookup
from perfcast.cost.embedding.learned import (
    EmbeddingWeights,
    LearnedEmbeddingPricer,
    local_weights_path,
    save_embedding_weights,
)
from perfcast.cost.embedding.model import PHASES, price_lookups
from perfcast.errors import CalibrationError
from perfcast.evidence.train.embedding.fit import NUM_MEMBERS, fit_nets, gather_cases
from perfcast.measure.embedding.cases import GROUPS
from perfcast.measure.embedding.samples import EmbeddingSample
from perfcast.measure.embedding.store import load_samples, machine_of, measure_design, measurements_in

#: Median of |x| of a normal distribution, in standard deviations.
_MEDIAN_DEVIATION = 0.6745
Lookups = Sequence[EmbeddingLookup]


@dataclass(frozen=True)
class EmbeddingRecord:
    """How weights came to be; stored with them.

    Attributes:
        machine: What was measured.
        num_cases: Cases fitted to, by optimizer.
        spread: Of ln(measured / predicted) on cases of tables and distributions left out, by optimizer and
            phase.
    """

    machine: str
    num_cases: Mapping[str, int]
    spread: Mapping[str, Mapping[str, float]]


def train_embedding(
    measurements: Path | None = None,
    output: Path | None = None,
    passes: int = 0,
    report: Callable[[int, int], None] = lambda done, wanted: None,
    num_members: int = NUM_MEMBERS,
) -> tuple[Path, EmbeddingRecord]:
    """Measure what is missing, fit to the group 'fit', and write the weights.

    Args:
        measurements: File of measurements, or its folder; that of the user's data folder by default.
        output: File of weights; that of the user's data folder by default.
        passes: How often every case is to be measured; 0 measures nothing.
        report: Told how many cases are measured, and how many are to be.
        num_members: Nets of each phase.

    Raises:
        CalibrationError: Nothing is measured, or too little.
    """
    source, target = measurements_in(measurements), output or local_weights_path()
    if passes:
        measure_design(source, passes, report=report)
    samples = load_samples(source)
    optimizers = sorted({sample.optimizer for sample in samples["fit"]})
    if not optimizers:
        raise CalibrationError(f"{source} holds no cases to fit to")
    weights = {name: fit_weights(samples, name, num_members=num_members) for name in optimizers}
    record = EmbeddingRecord(
        machine_of(source),
        {name: sum(s.optimizer == name for s in samples["fit"]) for name in optimizers},
        {name: dict(weights[name].spread) for name in optimizers},
    )
    stored = {"machine": record.machine, "num_cases": dict(record.num_cases)}
    save_embedding_weights(target, weights, stored)
    return target, record


def fit_weights(
    samples: Mapping[str, Sequence[EmbeddingSample]],
    optimizer: str,
    describe: Callable[[Lookups], Lookups] = lambda lookups: lookups,
    num_members: int = NUM_MEMBERS,
) -> EmbeddingWeights:
    """Fit to the group 'fit'; the spread is that of the last group, which shares nothing with it.

    Args:
        describe: What the model is told of lookups.
    """
    mine = {
        group: [sample for sample in samples.get(group, ()) if sample.optimizer == optimizer]
        for group in (GROUPS[0], GROUPS[-1])
    }
    members = {
        phase: fit_nets(
            gather_cases(
                [describe(sample.lookups) for sample in mine[GROUPS[0]]],
                [sample.seconds(phase) for sample in mine[GROUPS[0]]],
            ),
            num_members,
        )
        for phase in PHASES
    }
    pricer = LearnedEmbeddingPricer(EmbeddingWeights(members, dict.fromkeys(PHASES, 0.0)), True)
    held_out = mine[GROUPS[-1]] or mine[GROUPS[0]]
    spread = {
        phase: _spread(
            [
                np.log(sample.seconds(phase) / price_lookups(pricer, describe(sample.lookups), phase).seconds)
                for sample in held_out
            ]
        )
        for phase in PHASES
    }
    return EmbeddingWeights(members, spread)


def _spread(errors: Sequence[float]) -> float:
    """Standard deviation of errors, by their median: outliers of a busy machine do not count."""
    return float(np.median(np.abs(errors)) / _MEDIAN_DEVIATION)
