"""Constants of a step as a whole: what no operation's price holds. The data files state their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType

from perfcast.core.training import FRAMEWORKS
from perfcast.errors import CatalogError
from perfcast.figures import parse_figure, parse_table, parse_toml
from perfcast.frameworks.load import load_training_profile


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
    """The shipped constants: those of each framework's profile, and the file's."""
    hosts = {name: load_training_profile(name).host for name in FRAMEWORKS}
    return StepConstants(
        MappingProxyType({name: host.launch_seconds for name, host in hosts.items()}),
        MappingProxyType({name: host.fixed_seconds for name, host in hosts.items()}),
        parse_interval_widening(Path(str(resources.files("perfcast.prediction.step") / "constants.toml"))),
    )


def parse_interval_widening(path: Path) -> float:
    """The widening of a file of constants, checked.

    Raises:
        CatalogError: It is missing, or has no unit or source.
    """
    content = parse_toml(path)
    sources, interval = (parse_table(content, key, path.name) for key in ("sources", "interval"))
    if "widening" not in interval:
        raise CatalogError(f"{path.name}: no widening of the interval")
    return parse_figure(interval["widening"], sources, f"{path.name}.interval.widening").si_value
