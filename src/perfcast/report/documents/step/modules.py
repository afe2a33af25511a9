"""Times of modules, added up from the leaves, with layers that are built alike folded into one."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from perfcast.core.forecast.device import KindTime


def module_seconds(by_module: Sequence[KindTime]) -> dict[str, float]:
    """Time of each module with all that is inside, '' for the model; parents first, layers folded."""
    names = fold_layers({group.label for group in by_module})
    totals: dict[str, float] = {"": 0.0}
    for group in by_module:
        path = names[group.label]
        while path:
            totals[path] = totals.get(path, 0.0) + group.seconds
            path = parent_of(path)
        totals[""] += group.seconds
    return dict(sorted(totals.items()))


def fold_layers(labels: Collection[str]) -> dict[str, str]:
    """A name for each module in which neighbours built alike share one: ``h.3.mlp`` is ``h.0–35.mlp``.

    Alike are numbered neighbours that hold the same, more than nothing, inside. Outer lists fold
    first, then the lists within.
    """
    names = {label: label for label in labels}
    depth = max((label.count(".") + 1 for label in labels), default=0)
    for position in range(1, depth):
        insides: dict[tuple[str, int], set[str]] = {}
        for name in names.values():
            parts = name.split(".")
            if len(parts) > position and parts[position].isdigit():
                key = (".".join(parts[:position]), int(parts[position]))
                insides.setdefault(key, set()).add(".".join(parts[position + 1 :]))
        runs = _runs_of_equals(insides)
        for label, name in names.items():
            parts = name.split(".")
            if len(parts) > position and parts[position].isdigit():
                parts[position] = runs[".".join(parts[:position]), int(parts[position])]
                names[label] = ".".join(parts)
    return names


def _runs_of_equals(insides: dict[tuple[str, int], set[str]]) -> dict[tuple[str, int], str]:
    """For each numbered module the range of neighbours that hold the same, such as ``0–35``."""
    runs: dict[tuple[str, int], str] = {}
    members: list[tuple[str, int]] = []
    for key in sorted(insides):
        previous = members[-1] if members else None
        alike = (
            previous == (key[0], key[1] - 1) and insides[previous] == insides[key] and insides[key] != {""}
        )
        members = [*members, key] if alike else [key]
        text = str(key[1]) if len(members) == 1 else f"{members[0][1]}–{key[1]}"
        runs.update(dict.fromkeys(members, text))
    return runs


def parent_of(path: str) -> str:
    """The module around; the number of a repeated layer stays with its list (``h.0`` is one step)."""
    head, _, last = path.rpartition(".")
    return head.rpartition(".")[0] if last[:1].isdigit() and head else head
