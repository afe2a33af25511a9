"""The published systems by name: what they are, and where their figures are compared with ours.

``perfcast published`` lists them. A system is added by one entry here and a ``compare(data)`` in its module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from perfcast.errors import UnknownNameError
from perfcast.published.comparison import Compare, Comparison, print_part


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A published system.

    Attributes:
        title: What it is, with its authors and year.
        home: ``module:function`` of its comparison; imported when asked for.
        state: What of its figures is reproduced, in one line.
    """

    title: str
    home: str
    state: str


SYSTEMS: Mapping[str, System] = {
    "mesh_cost_model": System(
        title="Cost model of automatic parallelism",
        home="perfcast.published.mesh_cost_model.compare:compare",
        state="works, by perfcast mesh step; its page prints no figures",
    ),
    "multi_gpu_2024": System(
        title="Lin et al. 2024, multi-GPU training from traces",
        home="perfcast.published.multi_gpu_2024.compare:compare",
        state="errors of kernels, of steps and of the choice of sharding on other machines",
    ),
    "mystique": System(
        title="Mystique (Liang et al. 2023), benchmarks from traces",
        home="perfcast.published.mystique:compare",
        state="its traces are not public; coverage of public ones beside its successor's with --data",
    ),
    "data_movement": System(
        title="Data-movement limits (Erdil and Schneider-Joseph 2024)",
        home="perfcast.published.data_movement.compare:compare",
        state="notebook's four values to the digit; its search over plans is not published, ours is",
    ),
    "neusight": System(
        title="NeuSight (Lee et al. 2025), tiles and waves",
        home="perfcast.published.neusight.compare:compare",
        state="multi-node forecasts beside ours; errors of whole steps with --data",
    ),
    "habitat": System(
        title="Habitat (Yu et al. 2021), wave scaling",
        home="perfcast.published.habitat.compare:compare",
        state="errors of whole steps in NeuSight's study with --data",
    ),
    "li2020": System(
        title="Li et al. 2020, a line per operator",
        home="perfcast.published.li2020:compare",
        state="errors of whole steps in NeuSight's study with --data",
    ),
    "nets": System(
        title="Larger predictors of NeuSight's study",
        home="perfcast.published.nets.compare:compare",
        state="errors of batched products in NeuSight's study",
    ),
    "searcher_3d": System(
        title="3D-parallelism searcher (SoonHo Kim)",
        home="perfcast.published.searcher_3d.compare:compare",
        state="the same times and order as its public class; the report's own jobs are not public",
    ),
}


def find_system(name: str) -> str:
    """A system's name as it is spelled here: hyphens and capitals are taken too.

    Raises:
        UnknownNameError: There is none; lists close names.
    """
    spelled = name.lower().replace("-", "_")
    if spelled not in SYSTEMS:
        raise UnknownNameError("published system", name, SYSTEMS, f"Known: {', '.join(SYSTEMS)}.")
    return spelled


def compare_system(name: str, data: Path | None = None) -> Comparison:
    """Figures of a system beside ours.

    Args:
        data: Folder of measured tables; None leaves the rows out that need them.

    Raises:
        UnknownNameError: There is no such system.
        InputError: The folder holds none of its tables.
    """
    module, _, function = SYSTEMS[find_system(name)].home.partition(":")
    compare: Compare = getattr(import_module(module), function)
    return compare(data)


if __name__ == "__main__":
    print_part("systems", *SYSTEMS)
