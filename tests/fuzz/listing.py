"""All targets, by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path

from fuzz.target import Target

#: First part of a target's name → the file of ``targets/`` that lists it, and the packages whose coverage
#: is followed; instrumenting all of perfcast takes minutes.
KINDS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "text": ("texts", ("perfcast",)),
    "file": ("files", ("perfcast",)),
    "store": ("stores", ("perfcast.files", "perfcast.measure", "perfcast.verbs", "perfcast.workload.kept")),
    "array": ("arrays", ("perfcast",)),
    "model": ("models", ("perfcast.workload.models", "perfcast.core", "perfcast.memory_use")),
    "trace": ("traces", ("perfcast.traces", "perfcast.replays")),
    "question": ("verbs", ("perfcast.verbs", "perfcast.core.plans", "perfcast.prediction.request")),
    "answer": ("verbs", ("perfcast.verbs",)),
    "api": ("server", ("perfcast.server",)),
    "address": ("server", ("perfcast.verbs", "perfcast.server")),
    "command": ("commands", ("perfcast.cli", "perfcast.verbs")),
}


def _listed(file: str) -> tuple[Target, ...]:
    found: tuple[Target, ...] = import_module(f"fuzz.targets.{file}").TARGETS
    return found


@cache
def targets() -> Mapping[str, Target]:
    """Name → target; every file of ``targets/`` lists its own as TARGETS."""
    files = dict.fromkeys(file for file, _ in KINDS.values())
    found = [one for file in files for one in _listed(file)]
    assert len({one.name for one in found}) == len(found), "two targets of one name"
    assert {one.name.partition("/")[0] for one in found} == set(KINDS)
    return {one.name: one for one in found}


def target_named(name: str) -> Target:
    """One of them; what the others import is left alone."""
    return next(one for one in _listed(KINDS[name.partition("/")[0]][0]) if one.name == name)


def regressions(target: Target) -> tuple[Path, ...]:
    """Inputs that once did what none may, by file."""
    return tuple(sorted((Path(__file__).parent / "regressions" / target.name).glob("*")))
