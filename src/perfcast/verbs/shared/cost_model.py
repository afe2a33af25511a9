"""Cost models as ``--cost-model`` names them, published ones among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfcast.cost.model import CostModel


def find_cost_model(name: str | CostModel | None, device: str) -> str | CostModel | None:
    """A published predictor by its name; the cost models of the package stay names, objects what they are.

    Raises:
        UnknownNameError: Neither.
        InputError: It prices kernels alone, or is not trained.
    """
    from perfcast.errors import UnknownNameError
    from perfcast.prediction import COST_MODELS, resolve_device

    if name is None or not isinstance(name, str) or name in COST_MODELS:
        return name
    from perfcast.published.nets.store import predictor_folder
    from perfcast.published.registry import PREDICTORS, load_cost_model

    published = [key for key, entry in PREDICTORS.items() if entry.cost_model]
    if name not in PREDICTORS:
        known = (*COST_MODELS, *published)
        raise UnknownNameError("cost model", name, known, f"Known: {', '.join(known)}.")
    vendor = "amd" if resolve_device(device).vendor == "amd" else "nvidia"
    return load_cost_model(name, predictor_folder(name, seed=0, vendor=vendor))


def choose_cost_model(
    name: str | CostModel | None, device: str, framework: str | None, weights: str | None
) -> CostModel:
    """A cost model as the command line names it.

    Raises:
        InputError: An unknown one, or what it has no use for.
    """
    from perfcast.prediction import resolve_cost_model, resolve_device

    found = find_cost_model(name, device)
    if found is None or isinstance(found, str):
        return resolve_cost_model(found, resolve_device(device), framework, weights)
    return found
