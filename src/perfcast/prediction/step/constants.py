"""Constants of a step as a whole: what no operation's price holds. The data file states their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType

from perfcast.catalog.figures import parse_figure, parse_table, parse_toml
from perfcast.core.training import FRAMEWORKS
from perfcast.errors import CatalogError


@dataclass(frozen=True)
class StepConstants:
    """Constants of a step as a whole.

    Attributes:
        launch_seconds: Of the host from one kernel to the next, by training framework.
        fixed_seconds: Of every step whatever its size, by training framework; 0 where none is known.
        interval_widening: Factor on the half-widths of a step's 90 % interval.
    """

    launch_seconds: Mapping[str, float]
    fixed_seconds: Mapping[str, float]
    interval_widening: float = 1.0


@cache
def load_step_constants() -> StepConstants:
    """The shipped constants."""
    return parse_step_constants(Path(str(resources.files("perfcast.prediction.step") / "constants.toml")))


def parse_step_constants(path: Path) -> StepConstants:
    """Constants of a file, checked.

    Raises:
        CatalogError: A framework without a launch time, an unknown one, a figure without unit or source.
    """
    content = parse_toml(path)
    sources = parse_table(content, "sources", path.name)

    def figures(key: str) -> Mapping[str, float]:
        rows = parse_table(content, key, path.name)
        return MappingProxyType(
            {
                name: parse_figure(row, sources, f"{path.name}.{key}.{name}").si_value
                for name, row in rows.items()
            }
        )

    launch, fixed, interval = figures("launch"), figures("fixed"), figures("interval")
    for name in sorted({*launch, *fixed} - set(FRAMEWORKS)):
        raise CatalogError(f"{path.name}: {name} is no training framework; known: {', '.join(FRAMEWORKS)}")
    for name in FRAMEWORKS:
        if name not in launch:
            raise CatalogError(f"{path.name}: no launch time of {name}")
    if "widening" not in interval:
        raise CatalogError(f"{path.name}: no widening of the interval")
    return StepConstants(launch, fixed, interval["widening"])
