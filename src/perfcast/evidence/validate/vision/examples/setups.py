"""What ``setups.toml`` says of each README's programs and steps."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class ModeSetup:
    """What a step of one mode holds; see the head of ``setups.toml``."""

    items: float | Mapping[str, float] | None = None
    optimizer: str = "none"
    reduces_each: bool = False
    batch_is: str = "micro"
    channels_last: tuple[str, ...] = ()
    mixed: str = "autocast"
    variant: str = ""
    unsupported: str = ""
    options: Mapping[str, float] = field(default_factory=dict)
    batch: Mapping[str, Mapping[str, Mapping[str, int]]] = field(default_factory=dict)

    def items_of(self, program: str) -> float | None:
        """What throughput counts in one unit of the batch size; None where it is not known."""
        return self.items.get(program) if isinstance(self.items, Mapping) else self.items

    def stated_batch(self, program: str, device: str, memory: str, precision: str) -> int | None:
        """The scripts' batch size on a device ('v100') of some memory ('16gb')."""
        by_device = self.batch.get(program, {})
        found = by_device.get(f"{device} {memory}") or by_device.get(device) or {}
        return found.get(precision)

    def is_channels_last(self, program: str, precision: str) -> bool:
        """Whether a program runs so in a precision ('fp16', or 'fp16 3d' of 3-D programs alone)."""
        return precision in self.channels_last or (
            program.endswith("3d") and f"{precision} 3d" in self.channels_last
        )


@dataclass(frozen=True)
class Setup:
    """What one README's tables do not say of themselves; see the head of ``setups.toml``."""

    source_file: str
    program: str
    train: ModeSetup
    inference: ModeSetup
    latency_unit: str | None = None
    order: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    repeats: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rows: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    with_column: Mapping[str, str] = field(default_factory=dict)

    def mode(self, is_training: bool) -> ModeSetup:
        """Of one mode."""
        return self.train if is_training else self.inference


@cache
def load_setups() -> Mapping[str, Setup]:
    """By source file."""
    text = resources.files(__package__).joinpath("setups.toml").read_text(encoding="utf-8")
    found = [_setup(entry) for entry in tomllib.loads(text)["setups"]]
    return {setup.source_file: setup for setup in found}


def _setup(entry: Mapping[str, Any]) -> Setup:
    values = {
        key: _frozen(value) for key, value in entry.items() if key not in ("from", "train", "inference")
    }
    return Setup(**values, train=_mode(entry["train"], 1.0), inference=_mode(entry["inference"], 1.0))


def _mode(entry: Mapping[str, Any], items: float) -> ModeSetup:
    return ModeSetup(**{"items": items, **{key: _frozen(value) for key, value in entry.items()}})


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, dict):
        return {key: _frozen(part) for key, part in value.items()}
    return value
