"""The data file of step constants, written anew from a fit."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any

from perfcast.core.training import FRAMEWORKS
from perfcast.evidence.validate.published.priced import Chosen
from perfcast.evidence.validate.step_constants.scales import TRACED
from perfcast.units import MICRO

_CHOSEN = (
    "perfcast validate published --write-spread: chosen on published training runs (VIA-Research/vTrain MIT, "
    "Ultra-Scale Playbook, mosaicml/llm-foundry Apache-2.0, BLOOM's chronicles, NVIDIA NeMo and DGX Cloud "
    "recipes, SimuMax Apache-2.0, MLCommons logs unverified, Megatron-LM papers); --leave-out each scores it"
)
_COMMENTS = {
    "launch": "Time of the host from one launch to the next, by the program that trains.",
    "fixed": "Of every step, whatever its size, by the program.",
    "interval": "Of an interval's half-widths, above and below.",
    "factors": "Seconds in a step over those of an operation alone, by class.",
    "dies": "The same for products and attention, by die.",
    "networks": "The same for communication between nodes, by kind of network.",
    "attention": "Seconds of attention by older kernels over those of the newest that the device has.",
    "spread_low": "Measured over forecast where nothing was chosen: 5th percentile, by class of step.",
    "spread_high": "The same: 95th percentile.",
}


def constants_text(chosen: Chosen) -> str:
    """The whole file; what no fit moves is carried over."""
    shipped = resources.files("perfcast.prediction.step") / "constants.toml"
    content = tomllib.loads(shipped.read_text(encoding="utf-8"))
    tables = {name: content[name] for name in _COMMENTS} | _tables(chosen)
    tables["launch"] = {name: content["launch"][name] for name in TRACED} | tables["launch"]
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
    programs = [name for name in FRAMEWORKS if name not in TRACED]
    launch = {name: values["launch"] * values[f"launch.{name}"] for name in programs}
    spread = {name.replace(" ", "_") or "all": pair for name, pair in chosen.spread.items()}
    classes = {name: value for name, value in values.items() if "." not in name}
    return {
        "launch": {name: _row(seconds / MICRO, "us") for name, seconds in launch.items()},
        "fixed": {name: _row(values["fixed"] / MICRO, "us") for name in FRAMEWORKS},
        "factors": {name: _row(value) for name, value in classes.items() if name not in ("launch", "fixed")},
        "dies": _members(values, "dies"),
        "networks": _members(values, "networks"),
        "spread_low": {name: _row(low) for name, (low, _) in spread.items()},
        "spread_high": {name: _row(high) for name, (_, high) in spread.items()},
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
