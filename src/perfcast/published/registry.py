"""Predictors by name: what they are, how they are trained, how they are loaded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from perfcast.core.arrays import Floats, Integers
from perfcast.core.hardware import Device
from perfcast.core.kernel import KernelTable
from perfcast.cost.model import CostModel
from perfcast.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from perfcast.train.loop import Progress


class KernelPredictor(Protocol):
    """Prices kernels on devices."""

    @property
    def name(self) -> str:
        """Its name in the registry."""
        ...

    def predict(self, kernels: KernelTable, devices: Sequence[Device], device_index: Integers) -> Floats:
        """Seconds of each kernel on ``devices[device_index[i]]``, shape [n]; NaN where it has no model."""
        ...


class Trainer(Protocol):
    """Trains a predictor into a folder and returns the record that lies beside its weights."""

    def __call__(
        self,
        data: Path,
        folder: Path,
        *,
        seed: int,
        vendor: str,
        left_out: Collection[str],
        num_epochs: int,
        progress: Progress | None = None,
    ) -> dict[str, Any]:
        """See ``neusight_training.train_neusight``."""
        ...


@dataclass(frozen=True)
class Entry:
    """A predictor; ``module:function`` texts are imported when asked for.

    Attributes:
        loader: (folder) → KernelPredictor; the folder is not looked at where ``trainer`` is empty.
        trainer: A ``Trainer``; empty where nothing is trained.
        cost_model: (folder) → CostModel of captured graphs; empty where there is none.
        num_epochs: Of the published training.
        named: Whether loader and trainer serve several predictors and take the name first.
    """

    description: str
    loader: str
    trainer: str = ""
    cost_model: str = ""
    num_epochs: int = 1
    named: bool = False


_LARGER = "perfcast.published.larger_predictors"

PREDICTORS: Mapping[str, Entry] = {
    "roofline": Entry(
        "max(flops / peak, bytes / bandwidth)", "perfcast.published.kernel_roofline:load_roofline"
    ),
    "neusight": Entry(
        "NeuSight (ASPLOS 2025): tiles and waves, five nets for the utilization",
        "perfcast.published.neusight:load_neusight",
        "perfcast.published.neusight_training:train_neusight",
        "perfcast.published.neusight_graph:load_neusight_cost",
        num_epochs=100,
    ),
    "habitat": Entry(
        "Habitat (USENIX ATC 2021): wave scaling from a measured device, nets for kernels that vary",
        "perfcast.published.habitat:load_habitat",
        "perfcast.published.habitat_training:train_habitat",
        num_epochs=100,
    ),
    "li2020": Entry(
        "Li et al.: a line in flops or bytes per operator and device",
        "perfcast.published.li2020:load_li2020",
        "perfcast.published.li2020:train_li2020",
    ),
    **{
        name: Entry(
            description, f"{_LARGER}:load_larger", f"{_LARGER}:train_larger", num_epochs=100, named=True
        )
        for name, description in {
            "mlp8": "an MLP of 8 layers that answers the latency of batched products",
            "mlp16": "the same of 16 layers",
            "transformer3": "a transformer of 3 layers that answers the latency of batched products",
            "transformer6": "the same of 6 layers",
        }.items()
    },
}


def find_entry(name: str) -> Entry:
    """An entry by name.

    Raises:
        UnknownNameError: Not registered.
    """
    if name not in PREDICTORS:
        raise UnknownNameError("predictor", name, PREDICTORS, f"Known: {', '.join(PREDICTORS)}.")
    return PREDICTORS[name]


def training_command(name: str) -> str:
    """What the user runs to train a predictor; '' where nothing is trained."""
    return f"perfcast train {name} --data DIR" if find_entry(name).trainer else ""


def load_predictor(name: str, folder: Path) -> KernelPredictor:
    """A predictor trained into ``folder``.

    Raises:
        UnknownNameError: Not registered.
        InputError: Not trained; names the command that trains it.
    """
    loader: Callable[[Path], KernelPredictor] = _import(name, find_entry(name).loader)
    return loader(folder)


def load_cost_model(name: str, folder: Path) -> CostModel:
    """A cost model of captured graphs on the predictor trained into ``folder``.

    Raises:
        UnknownNameError: Not registered.
        InputError: It prices kernels alone, or is not trained.
    """
    entry = find_entry(name)
    if not entry.cost_model:
        raise InputError(f"{name} prices single kernels; it is no cost model for whole steps")
    loader: Callable[[Path], CostModel] = _import(name, entry.cost_model)
    return loader(folder)


def load_trainer(name: str) -> Trainer:
    """The function that trains a predictor.

    Raises:
        UnknownNameError: Not registered.
        InputError: It has nothing to train.
    """
    entry = find_entry(name)
    if not entry.trainer:
        raise InputError(f"{name} has nothing to train")
    trainer: Trainer = _import(name, entry.trainer)
    return trainer


def _import(name: str, text: str) -> Any:
    module, _, function = text.partition(":")
    found = getattr(import_module(module), function)
    return partial(found, name) if PREDICTORS[name].named else found
