"""``validate embedding``: measured embedding lookups against the learned cost, with and without reuse.

Two models of one form are fitted to the same cases: 'learned' knows how often each batch looks up the same
rows, 'blind' takes every row to be equally likely. Both are scored on the cases they were fitted to, on new
tables, on new distributions of indices, and on new tables with new distributions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from perfcast.core.embedding.lookup import EmbeddingLookup
from perfcast.cost.embedding.learned import LearnedEmbeddingPricer
from perfcast.cost.embedding.model import PHASES, price_lookups
from perfcast.errors import UnknownNameError
from perfcast.evidence.train.embedding.fit import NUM_MEMBERS
from perfcast.evidence.train.embedding.train import fit_weights
from perfcast.evidence.validate.result import SuiteResult
from perfcast.evidence.validate.row import Row
from perfcast.measure.embedding.cases import GROUPS, HELD_OUT_DISTRIBUTIONS
from perfcast.measure.embedding.samples import EmbeddingSample
from perfcast.measure.embedding.store import (
    load_repeatability,
    load_samples,
    machine_of,
    measurements_in,
)

PREDICTORS = ("learned", "blind")
#: Added to each error before its logarithm, so that one exact forecast does not decide a geometric mean.
GMAE_FLOOR = 4e-4


@dataclass(frozen=True, slots=True)
class EmbeddingScore:
    """Errors of one predictor on one group of cases.

    Attributes:
        gmae: exp(mean ln(|error| + 4e-4)).
        mape, median: Of |error|.
        coverage: Share of cases in their 90 % interval.
    """

    predictor: str
    optimizer: str
    phase: str
    group: str
    num_cases: int
    gmae: float
    mape: float
    median: float
    coverage: float


def validate_embedding(
    place: Path | None = None,
    predictors: Sequence[str] = (),
    say: Callable[[str], None] = lambda text: None,
    num_members: int = NUM_MEMBERS,
) -> tuple[SuiteResult, tuple[EmbeddingScore, ...]]:
    """Fit to the group 'fit' of measured cases and score every group.

    Args:
        place: File of measurements, or its folder; that of the user's data folder by default.
        predictors: Of ``PREDICTORS``; all by default.
        say: Told what goes on.
        num_members: Nets of each phase.

    Raises:
        UnknownNameError: Unknown predictors.
        CalibrationError: Nothing is measured, or too little.
    """
    names = tuple(predictors) or PREDICTORS
    for name in names:
        if name not in PREDICTORS:
            raise UnknownNameError("predictor", name, PREDICTORS, f"Known: {', '.join(PREDICTORS)}.")
    path = measurements_in(place)
    samples, machine = load_samples(path), machine_of(path)
    rows: list[Row] = []
    for optimizer in sorted({sample.optimizer for sample in samples["fit"]}):
        for name in names:
            say(f"fitting {name}, {optimizer}")
            rows += _rows(samples, optimizer, name, machine, num_members)
    result = SuiteResult("embedding", _protocol(names, machine, samples) | _passes(path), tuple(rows))
    return result, score(rows)


def score(rows: Iterable[Row]) -> tuple[EmbeddingScore, ...]:
    """Errors by predictor, optimizer, phase and group."""
    groups: dict[tuple[str, str, str, str], list[Row]] = {}
    for row in rows:
        key = (row.predictor, row.mode or "", row.operation or "", str(row.columns["group"]))
        groups.setdefault(key, []).append(row)
    return tuple(_score(key, mine) for key, mine in groups.items())


def _score(key: tuple[str, str, str, str], rows: Sequence[Row]) -> EmbeddingScore:
    errors = np.abs([row.relative_error or 0.0 for row in rows])
    inside = [
        (row.predicted_seconds_low or 0.0)
        <= (row.measured_seconds or 0.0)
        <= (row.predicted_seconds_high or 0.0)
        for row in rows
    ]
    return EmbeddingScore(
        *key,
        len(rows),
        float(np.exp(np.log(errors + GMAE_FLOOR).mean())),
        float(errors.mean()),
        float(np.median(errors)),
        float(np.mean(inside)),
    )


def without_reuse(lookups: Sequence[EmbeddingLookup]) -> list[EmbeddingLookup]:
    """The same lookups with nothing said of their reuse."""
    return [replace(lookup, reuse=None) for lookup in lookups]


def _rows(
    samples: Mapping[str, Sequence[EmbeddingSample]],
    optimizer: str,
    name: str,
    machine: str,
    num_members: int,
) -> list[Row]:
    describe = without_reuse if name == "blind" else list
    weights = fit_weights(samples, optimizer, describe, num_members)
    pricer = LearnedEmbeddingPricer(weights, is_measured_here=True)
    rows = []
    for group in GROUPS:
        mine = [sample for sample in samples[group] if sample.optimizer == optimizer]
        for number, sample in enumerate(mine):
            for phase in PHASES:
                price = price_lookups(pricer, describe(sample.lookups), phase)
                rows.append(
                    Row(
                        suite="embedding",
                        table=group.replace(" ", "_"),
                        row=number,
                        device=machine,
                        catalog_device=None,
                        predictor=name,
                        operation=phase,
                        mode=optimizer,
                        columns={"group": group, **_configuration(sample)},
                        predicted_seconds=price.seconds,
                        predicted_seconds_low=price.seconds_low,
                        predicted_seconds_high=price.seconds_high,
                        measured_seconds=sample.seconds(phase),
                        provenance=price.provenance,
                    )
                )
    return rows


def _configuration(sample: EmbeddingSample) -> dict[str, Any]:
    return {
        "batch_size": sample.lookups[0].batch_size,
        "rows": [lookup.num_rows for lookup in sample.lookups],
        "dims": [lookup.dim for lookup in sample.lookups],
        "poolings": [lookup.pooling for lookup in sample.lookups],
        "distributions": list(sample.distributions),
    }


def _protocol(
    names: Sequence[str], machine: str, samples: Mapping[str, Sequence[EmbeddingSample]]
) -> dict[str, Any]:
    return {
        "measured": "torch.nn.EmbeddingBag with sparse gradients, one to eight tables one after the other, "
        f"processor time, on {machine}; geometric means over steps, stated for one speed of probes beside",
        "predictors": list(names),
        "fitted_on": "the group 'fit'",
        "left_out": "whole tables, and the distributions " + ", ".join(HELD_OUT_DISTRIBUTIONS),
        "interval": "from the spread on the last group: its coverage there is by construction",
        "cases": {group: len(mine) for group, mine in samples.items()},
        "gmae": f"exp(mean ln(|error| + {GMAE_FLOOR}))",
    }


def _passes(path: Path) -> dict[str, Any]:
    """How far two passes over the same cases are apart: the least error that a model can show."""
    return {
        "second_pass_against_first": {
            f"{one.optimizer}, {one.phase}": {
                "cases": one.num_cases,
                "deviation": one.deviation,
                "shift": one.shift,
            }
            for one in load_repeatability(path)
        }
    }
