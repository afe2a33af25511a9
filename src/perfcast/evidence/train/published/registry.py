"""Who trains a published predictor, by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from perfcast.errors import InputError
from perfcast.evidence.train.published.request import TrainingRequest
from perfcast.published.nets.larger import LARGER
from perfcast.published.registry import find_entry

#: Trains a predictor and returns the record that lies beside its weights.
Trainer = Callable[[TrainingRequest], dict[str, Any]]


@dataclass(frozen=True)
class Training:
    """How a predictor is trained.

    Attributes:
        function: ``module:function``, a ``Trainer``; imported when asked for.
        num_epochs: Of the published training.
        named: Whether it trains several predictors and takes the name first.
    """

    function: str
    num_epochs: int = 1
    named: bool = False


_HERE = "perfcast.evidence.train.published"

TRAININGS: Mapping[str, Training] = {
    "neusight": Training(f"{_HERE}.neusight:train_neusight", num_epochs=100),
    "habitat": Training(f"{_HERE}.habitat:train_habitat", num_epochs=100),
    "li2020": Training(f"{_HERE}.li2020:train_li2020"),
    "lin2024": Training(f"{_HERE}.lin2024:train_lin2024", num_epochs=100),
    **{name: Training(f"{_HERE}.larger:train_larger", num_epochs=100, named=True) for name in LARGER},
}


def find_training(name: str) -> Training:
    """How a predictor is trained.

    Raises:
        UnknownNameError: Not registered.
        InputError: It has nothing to train.
    """
    find_entry(name)
    if name not in TRAININGS:
        raise InputError(f"{name} has nothing to train")
    return TRAININGS[name]


def load_trainer(name: str) -> Trainer:
    """The function that trains a predictor.

    Raises:
        UnknownNameError, InputError: As ``find_training``.
    """
    training = find_training(name)
    module, _, function = training.function.partition(":")
    found = getattr(import_module(module), function)
    trainer: Trainer = partial(found, name) if training.named else found
    return trainer
