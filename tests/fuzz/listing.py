"""All targets, by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path

from fuzz.target import Target


@cache
def targets() -> Mapping[str, Target]:
    """Name → target; every file of ``targets/`` lists its own as TARGETS."""
    files = sorted((Path(__file__).parent / "targets").glob("*.py"))
    found = [one for file in files for one in import_module(f"fuzz.targets.{file.stem}").TARGETS]
    assert len({one.name for one in found}) == len(found), "two targets of one name"
    return {one.name: one for one in found}


def regressions(target: Target) -> tuple[Path, ...]:
    """Inputs that once did what none may, by file."""
    return tuple(sorted((Path(__file__).parent / "regressions" / target.name).glob("*")))
