"""Predictors by name: what they are, and how they are loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from perfcast.core.arrays import Floats, Integers
from perfcast.core.kernel import KernelTable
from perfcast.core.machine.hardware import Device
from perfcast.cost.model import CostModel
from perfcast.errors import InputError, UnknownNameError
from perfcast.published.comparison import print_part


class KernelPredictor(Protocol):
    """Prices kernels on devices."""

    @property
    def name(self) -> str:
        """Its name in the registry."""
        ...

    def predict(self, kernels: KernelTable, devices: Sequence[Device], device_index: Integers) -> Floats:
        """Seconds of each kernel on ``devices[device_index[i]]``, shape [n]; NaN where it has no model."""
        ...


@dataclass(frozen=True)
class Entry:
    """A predictor; ``module:function`` texts are imported when asked for.

    Attributes:
        loader: (folder) → KernelPredictor; the folder is not looked at where nothing is trained.
        is_trained: Whether it is trained on measured kernels (``perfcast train``).
        cost_model: (folder) → CostModel of captured graphs; empty where there is none.
        named: Whether the loader serves several predictors and takes the name first.
    """

    description: str
    loader: str
    is_trained: bool = True
    cost_model: str = ""
    named: bool = False


#: Nets that know batched products alone.
BATCHED_PRODUCT_NETS: Mapping[str, str] = {
    "mlp8": "an MLP of 8 layers that answers the latency of batched products",
    "mlp16": "the same of 16 layers",
    "transformer3": "a transformer of 3 layers that answers the latency of batched products",
    "transformer6": "the same of 6 layers",
}

PREDICTORS: Mapping[str, Entry] = {
    "roofline": Entry(
        "max(flops / peak, bytes / bandwidth)",
        "perfcast.published.kernels.roofline:load_roofline",
        is_trained=False,
    ),
    "neusight": Entry(
        "NeuSight (ASPLOS 2025): tiles and waves, five nets for the utilization",
        "perfcast.published.neusight.predictor:load_neusight",
        cost_model="perfcast.published.neusight.graph:load_neusight_cost",
    ),
    "habitat": Entry(
        "Habitat (USENIX ATC 2021): wave scaling from a measured device, nets for kernels that vary",
        "perfcast.published.habitat.predictor:load_habitat",
        cost_model="perfcast.published.habitat.predictor:load_habitat_cost",
    ),
    "li2020": Entry(
        "Li et al.: a line in flops or bytes per operator and device",
        "perfcast.published.li2020:load_li2020",
        cost_model="perfcast.published.li2020:load_li2020_cost",
    ),
    "lin2024": Entry(
        "Lin et al. (TPDS 2024): an MLP for each family and device, constants for memory-bound kernels",
        "perfcast.published.multi_gpu_2024.predictor:load_lin2024",
        cost_model="perfcast.published.multi_gpu_2024.cost:load_lin2024_cost",
    ),
    **{
        name: Entry(
            description,
            "perfcast.published.nets.larger:load_larger",
            cost_model="perfcast.published.nets.larger:load_larger_cost",
            named=True,
        )
        for name, description in BATCHED_PRODUCT_NETS.items()
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
    return f"perfcast train {name} --data DIR" if find_entry(name).is_trained else ""


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


def _import(name: str, text: str) -> Any:
    module, _, function = text.partition(":")
    found = getattr(import_module(module), function)
    return partial(found, name) if PREDICTORS[name].named else found


if __name__ == "__main__":
    print_part("registry", "neusight", "habitat", "li2020", "nets")
