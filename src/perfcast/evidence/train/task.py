"""What a net is to learn."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from perfcast.core.arrays import Integers

Float32Array = NDArray[np.float32]


@dataclass(frozen=True)
class Recipe:
    """How a net is trained: AdamW with a constant learning rate, mini-batches drawn anew each epoch."""

    learning_rate: float
    batch_size: int
    train_fraction: float = 0.8


@dataclass(frozen=True, eq=False)
class Task:
    """One net and its examples.

    Attributes:
        name: Names its files.
        build: Makes the net; its weights come from torch's global generator, which ``train`` seeds.
        inputs: What the net sees, shape [n, f].
        context: What turns its outputs into seconds and is not seen, shape [n, c].
        seconds: Measured, shape [n].
        answer: (outputs, context) → predicted seconds, shape [rows].
        loss: (predicted, measured) → mean over rows.
    """

    name: str
    build: Callable[[], nn.Module]
    inputs: Float32Array
    context: Float32Array
    seconds: Float32Array
    answer: Callable[[Tensor, Tensor], Tensor]
    loss: Callable[[Tensor, Tensor], Tensor]
    recipe: Recipe


@dataclass(frozen=True)
class Outcome:
    """How the training of one net went.

    Attributes:
        weights: Those of the epoch with the least validation error, by name in the net.
        validation_mape: Mean absolute relative error on the validation rows, at that epoch.
        ratio_low, ratio_high: 5th and 95th percentile of measured / predicted on the same rows, those of
            prediction 0 apart.
        best_epoch: Counted from 1.
        died_at: Epoch after which it was dead (not finite, or alike for every row); None if it never was.
        deaths: The same of earlier attempts, which died so early that the net was started again.
    """

    name: str
    weights: dict[str, Float32Array]
    validation_mape: float
    ratio_low: float
    ratio_high: float
    best_epoch: int
    num_epochs: int
    died_at: int | None
    deaths: tuple[int, ...]
    num_train: int
    num_validation: int


def fingerprint(task: Task, seed: int) -> str:
    """Hexadecimal digest of examples, recipe and seed: equal digests make equal weights."""
    digest = hashlib.sha256()
    for array in (task.inputs, task.context, task.seconds):
        digest.update(str(array.shape).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    digest.update(json.dumps([task.name, asdict(task.recipe), seed], sort_keys=True).encode())
    return digest.hexdigest()


def summary(outcome: Outcome, task: Task) -> dict[str, Any]:
    """Outcome and recipe without the weights, for a record in JSON."""
    names = [field.name for field in fields(outcome) if field.name not in ("weights", "name")]
    return {**{name: getattr(outcome, name) for name in names}, **asdict(task.recipe)}


def split_rows(num_rows: int, train_fraction: float, seed: int) -> tuple[Integers, Integers]:
    """A random split of row numbers into training and validation.

    Raises:
        ValueError: A part would be empty.
    """
    order = np.random.default_rng(seed).permutation(num_rows)
    num_train = int(train_fraction * num_rows)
    if not 0 < num_train < num_rows:
        raise ValueError(f"{num_rows} rows cannot be split {train_fraction:.0%} to the rest")
    return order[:num_train], order[num_train:]


def symmetric_relative_error(predicted: Tensor, measured: Tensor) -> Tensor:
    """Mean |t − p| / (t + p)."""
    return ((measured - predicted) / (measured + predicted)).abs().mean()


def relative_error(predicted: Tensor, measured: Tensor) -> Tensor:
    """Mean |t − p| / t."""
    return ((measured - predicted) / measured).abs().mean()
