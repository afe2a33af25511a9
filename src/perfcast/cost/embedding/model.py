"""What every cost of embedding lookups answers.

A rank looks up its tables in one go. The cost is a function of a sum of vectors, one for each table: it does
not depend on the tables' order, and a search that moves a table from rank to rank adds and subtracts vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.embedding.columns import EmbeddingColumns, embedding_columns
from perfcast.core.embedding.lookup import EmbeddingLookup
from perfcast.errors import UnknownNameError

#: ``backward`` holds the update of the touched rows too: optimizers of embeddings are fused with it.
PHASES = ("forward", "backward")
#: ``rowwise_adagrad`` keeps one number for a row.
OPTIMIZERS = ("sgd", "adagrad", "rowwise_adagrad")
#: Half of a 90 % interval of a normal distribution, in standard deviations.
_NINETY_PERCENT = 1.645


class EmbeddingPricer(Protocol):
    """Prices lookups on one device with one optimizer. Deterministic; more lookups never cost less."""

    @property
    def name(self) -> str:
        """Name of the model."""
        ...

    @property
    def provenance(self) -> str:
        """'interpolated' where the device was measured, else 'extrapolated'."""
        ...

    @property
    def relative_spread(self) -> float:
        """Standard deviation of ln(measured / predicted) of lookups that the model has not seen."""
        ...

    def table_vectors(self, columns: EmbeddingColumns, phase: str) -> Floats:
        """One vector for each table or shard, shape [n, k]; vectors of one rank are added up."""
        ...

    def device_seconds(self, summed: Floats, phase: str) -> Floats:
        """Seconds of ranks from their sums of vectors, shape [m, k] to [m]; no tables take no time."""
        ...


@dataclass(frozen=True, slots=True)
class EmbeddingSeconds:
    """Seconds of all lookups of one rank, with a 90 % interval."""

    seconds: float
    seconds_low: float
    seconds_high: float
    provenance: str


def price_lookups(
    pricer: EmbeddingPricer, lookups: Sequence[EmbeddingLookup], phase: str
) -> EmbeddingSeconds:
    """What one rank's lookups take.

    Raises:
        UnknownNameError: Not one of ``PHASES``.
    """
    check_phase(phase)
    summed = pricer.table_vectors(embedding_columns(lookups), phase).sum(axis=0)[None, :]
    seconds = float(pricer.device_seconds(summed, phase)[0])
    factor = float(np.exp(_NINETY_PERCENT * pricer.relative_spread))
    return EmbeddingSeconds(seconds, seconds / factor, seconds * factor, pricer.provenance)


def check_phase(phase: str) -> None:
    """Whether it is one of ``PHASES``.

    Raises:
        UnknownNameError: It is not.
    """
    if phase not in PHASES:
        raise UnknownNameError("phase", phase, PHASES, f"Known: {', '.join(PHASES)}.")


def check_optimizer(optimizer: str) -> None:
    """Whether it is one of ``OPTIMIZERS``.

    Raises:
        UnknownNameError: It is not.
    """
    if optimizer not in OPTIMIZERS:
        raise UnknownNameError("optimizer", optimizer, OPTIMIZERS, f"Known: {', '.join(OPTIMIZERS)}.")
