"""Embedding lookups on a processor, learned from measured ones.

    seconds of a rank = geometric mean over members of (step + Σ over tables of base · exp(correction))

The step is what the first table pays for all: it finds the code and the framework's own data in no cache. The
base is a sum of the table's work (``features.base_terms``) at fitted rates; the correction a small net of
its features. Tables only meet in the sum, so that their order cannot matter. Members differ by the seed of
their fit. The weights shipped were measured on one processor; on another they are a guess, and say so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.embedding.columns import EmbeddingColumns
from perfcast.core.machine.hardware import Device
from perfcast.cost.embedding.features import base_terms, speed_features
from perfcast.cost.embedding.model import PHASES, check_phase
from perfcast.cost.profile import data_folder
from perfcast.errors import CalibrationError, PlanError, UnknownNameError
from perfcast.files.reading import read_json
from perfcast.files.writing import make_folder, write_text_atomically

SCHEMA = 2
SHIPPED = Path(__file__).parent.parent / "weights" / "embedding" / "cpu.json"
#: Least spread of ln(measured / predicted) on a processor that was not measured.
_FOREIGN_SPREAD = 0.5
#: No correction goes further than this from the base, in the logarithm.
_MOST_CORRECTION = 2.0


@dataclass(frozen=True, eq=False)
class EmbeddingNet:
    """One member for one phase.

    Attributes:
        rates: Seconds of each base term, shape [10].
        mean, scale: Of the features, shape [f].
        hidden_weights, hidden_bias: Shape [h, f] and [h]; tanh follows.
        output_weights: Shape [h].
        output_bias: Of the correction.
        step_seconds: Once for all tables of a rank.
    """

    rates: Floats
    mean: Floats
    scale: Floats
    hidden_weights: Floats
    hidden_bias: Floats
    output_weights: Floats
    output_bias: float
    step_seconds: float

    def seconds(self, base: Floats, features: Floats) -> Floats:
        """Seconds of each table, shape [n]."""
        hidden = np.tanh((features - self.mean) / self.scale @ self.hidden_weights.T + self.hidden_bias)
        correction = hidden @ self.output_weights + self.output_bias
        found: Floats = base @ self.rates * np.exp(np.clip(correction, -_MOST_CORRECTION, _MOST_CORRECTION))
        return found


@dataclass(frozen=True)
class EmbeddingWeights:
    """All that was fitted for one optimizer.

    Attributes:
        members: By phase.
        spread: Standard deviation of ln(measured / predicted) of cases left out, by phase.
    """

    members: Mapping[str, tuple[EmbeddingNet, ...]]
    spread: Mapping[str, float]


@dataclass(frozen=True)
class LearnedEmbeddingPricer:
    """Prices lookups on a processor; a vector has one number for each member."""

    weights: EmbeddingWeights
    is_measured_here: bool = False

    @property
    def name(self) -> str:
        """Name of the model."""
        return "learned"

    @property
    def provenance(self) -> str:
        """'interpolated' on the processor that was measured."""
        return "interpolated" if self.is_measured_here else "extrapolated"

    @property
    def relative_spread(self) -> float:
        """Standard deviation of ln(measured / predicted), the larger of both phases."""
        spread = max(self.weights.spread.values())
        return spread if self.is_measured_here else max(spread, _FOREIGN_SPREAD)

    def table_vectors(self, columns: EmbeddingColumns, phase: str) -> Floats:
        """Seconds of each table by each member, shape [n, members]."""
        check_phase(phase)
        base, features = base_terms(columns), speed_features(columns)
        nets = self.weights.members[phase]
        return np.stack([net.seconds(base, features) for net in nets], axis=1)

    def device_seconds(self, summed: Floats, phase: str) -> Floats:
        """Geometric mean over members, shape [m]."""
        check_phase(phase)
        tiny = np.finfo(np.float64).tiny
        steps = np.array([net.step_seconds for net in self.weights.members[phase]])
        middle = np.exp(np.log(np.maximum(summed + steps, tiny)).mean(axis=1))
        seconds: Floats = np.where(summed.max(axis=1) > 0, middle, 0.0)
        return seconds


def local_weights_path(folder: Path | None = None) -> Path:
    """Weights fitted on this machine; in the user's data folder by default."""
    return (folder or data_folder()) / "embedding_cpu.json"


def load_learned_pricer(
    device: Device, optimizer: str = "sgd", path: Path | None = None
) -> LearnedEmbeddingPricer:
    """The learned cost of a processor: fitted on this machine where it was measured, else as shipped.

    Raises:
        PlanError: Not a processor.
        UnknownNameError: An optimizer that was not measured.
        CalibrationError: The file cannot be read.
    """
    if not device.is_cpu:
        raise PlanError(f"the learned cost of embedding lookups knows processors, not {device.name}")
    own = path or local_weights_path()
    is_own = path is not None or own.exists()
    weights = load_embedding_weights(own if is_own else SHIPPED)
    if optimizer not in weights:
        raise UnknownNameError("optimizer", optimizer, weights, f"Measured: {', '.join(weights)}.")
    return LearnedEmbeddingPricer(weights[optimizer], is_own)


@cache
def load_embedding_weights(path: Path) -> dict[str, EmbeddingWeights]:
    """Weights of a file, by optimizer.

    Raises:
        CalibrationError: It is missing, or not one of ours.
    """
    content = read_json(path, what="the fitted costs of embedding lookups", error=CalibrationError)
    try:
        if not isinstance(content, dict):
            raise ValueError("no table")
        if content["schema"] != SCHEMA:
            raise ValueError(f"schema {content['schema']}")
        return {name: _weights(entry) for name, entry in content["optimizers"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CalibrationError(
            f"{path} does not hold fitted costs of embedding lookups ({error}); fit them again: "
            "perfcast train embedding"
        ) from None


def save_embedding_weights(
    path: Path, weights: Mapping[str, EmbeddingWeights], record: Mapping[str, Any]
) -> None:
    """Write a file, whole or not at all, with a record of what was fitted to what."""
    content = {
        "schema": SCHEMA,
        "record": dict(record),
        "optimizers": {name: _to_json(entry) for name, entry in weights.items()},
    }
    make_folder(path.parent)
    write_text_atomically(path, json.dumps(content, allow_nan=False) + "\n")


_ARRAYS = ("rates", "mean", "scale", "hidden_weights", "hidden_bias", "output_weights")
_NUMBERS = ("output_bias", "step_seconds")


def _to_json(weights: EmbeddingWeights) -> dict[str, Any]:
    return {
        "spread": dict(weights.spread),
        "members": {
            phase: [
                {name: _rounded(getattr(net, name)) for name in _ARRAYS}
                | {name: getattr(net, name) for name in _NUMBERS}
                for net in nets
            ]
            for phase, nets in weights.members.items()
        },
    }


def _rounded(values: Floats) -> Any:
    return json.loads(json.dumps(np.vectorize(lambda x: float(f"{x:.6g}"))(values).tolist()))


def _weights(entry: Mapping[str, Any]) -> EmbeddingWeights:
    members = {phase: tuple(_net(net) for net in entry["members"][phase]) for phase in PHASES}
    return EmbeddingWeights(members, {phase: float(entry["spread"][phase]) for phase in PHASES})


def _net(entry: Mapping[str, Any]) -> EmbeddingNet:
    rates, mean, scale, hidden, bias, output = (np.array(entry[name], dtype=np.float64) for name in _ARRAYS)
    return EmbeddingNet(rates, mean, scale, hidden, bias, output, *(float(entry[name]) for name in _NUMBERS))
