"""The data files of step constants, written anew from a fit: those of frameworks, and what all share."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from perfcast.core.training import FRAMEWORKS
from perfcast.evidence.validate.profile_files import write_profiles
from perfcast.evidence.validate.published.priced import Chosen
from perfcast.evidence.validate.step_constants.scales import TRACED, host_owner
from perfcast.files.writing import write_fitted_text

_CHOSEN = (
    "perfcast validate published --write-spread: chosen on published training runs (VIA-Research/vTrain MIT, "
    "Ultra-Scale Playbook, mosaicml/llm-foundry Apache-2.0, BLOOM's chronicles, NVIDIA NeMo and DGX Cloud "
    "recipes, SimuMax Apache-2.0, MLCommons logs unverified, Megatron-LM papers); --leave-out each scores it"
)
_COMMENTS = {
    "interval": "Of an interval's half-widths, above and below.",
    "factors": "Seconds in a step over those of an operation alone, by class.",
    "dies": "The same for products and attention, by die.",
    "networks": "The same for communication between nodes, by kind of network.",
    "attention": "Seconds of attention by older kernels over those of the newest that the device has.",
    "width_below": "Widths of a step's interval below its estimate, by part (prediction/step/interval).",
    "width_above": "The same above it.",
    "stall_seconds": "By which a micro-batch may stall on 64 devices, by framework, alone and in a pipeline.",
    "stall_growth": "Exponent of the devices over 64.",
    "sources_of_dies": "Of how many sources steps of a die were measured.",
}


def write_step_constants(chosen: Chosen, folder: Path) -> tuple[Path, ...]:
    """``constants.toml`` and the profile of each framework, in a folder."""
    path = folder / "constants.toml"
    write_fitted_text(path, constants_text(chosen))
    return (path, *write_profiles(_hosts(chosen.values), folder, table="host", source="published"))


def _hosts(values: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Fixed seconds and seconds from launch to launch; the pace that was seen in a trace stays."""
    owners = dict.fromkeys(host_owner(name) for name in FRAMEWORKS)
    hosts: dict[str, dict[str, float]] = {name: {"fixed_seconds": values["fixed"]} for name in owners}
    for name in hosts.keys() - set(TRACED):
        hosts[name]["launch_seconds"] = values["launch"] * values[f"launch.{name}"]
    return hosts


def constants_text(chosen: Chosen) -> str:
    """``constants.toml``; what no fit moves is carried over."""
    shipped = resources.files("perfcast.prediction.step") / "constants.toml"
    content = tomllib.loads(shipped.read_text(encoding="utf-8"))
    tables = {name: content[name] for name in _COMMENTS} | _tables(chosen)
    used = {row["source"] for table in tables.values() for row in table.values()}
    sources = {k: v for k, v in {**content["sources"], "published": _CHOSEN}.items() if k in used}
    lines = ["# What a step of many devices costs beyond its kernels and its communication.", "[sources]"]
    lines += [f'{name} = "{text}"' for name, text in sources.items()]
    for name, comment in _COMMENTS.items():
        lines += ["", f"# {comment}", f"[{name}]"]
        lines += [f"{_key(key)} = {_figure(row)}" for key, row in tables[name].items()]
    return "\n".join(lines) + "\n"


def _tables(chosen: Chosen) -> dict[str, dict[str, dict[str, Any]]]:
    values = chosen.values
    widths = chosen.widths
    stalls = {
        f"{n}_{end}": stall
        for n, pair in widths.stalls.items()
        for end, stall in zip(("alone", "pipeline"), pair, strict=True)
    }
    classes = {name: value for name, value in values.items() if "." not in name}
    return {
        "factors": {name: _row(value) for name, value in classes.items() if name not in ("launch", "fixed")},
        "dies": _members(values, "dies"),
        "networks": _members(values, "networks"),
        "width_below": {name: _row(value) for name, value in widths.below.items()},
        "width_above": {name: _row(value) for name, value in widths.above.items()},
        "stall_seconds": {name: _row(stall.seconds, "s") for name, stall in stalls.items()},
        "stall_growth": {name: _row(stall.growth) for name, stall in stalls.items()},
        "sources_of_dies": {name: _row(count) for name, count in widths.sources.items()},
    }


def _members(values: Mapping[str, float], group: str) -> dict[str, dict[str, Any]]:
    prefix = f"{group}."
    return {n.removeprefix(prefix): _row(v) for n, v in values.items() if n.startswith(prefix)}


def _row(value: float, unit: str = "1") -> dict[str, Any]:
    return {"value": float(f"{value:.4g}"), "unit": unit, "source": "published"}


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() else f'"{name}"'


def _figure(row: Mapping[str, Any]) -> str:
    return f'{{ value = {row["value"]:g}, unit = "{row["unit"]}", source = "{row["source"]}" }}'
