"""The NeuSight study's own table: mean error of whole steps by predictor, mode, and what had been seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perfcast.report import palette
from perfcast.report.document import Block, Cell, Column, Document, Fact, Items, Section, Table
from perfcast.report.documents.evidence.validation import Entry, hundredths, skipped_items
from perfcast.report.figure import Axis, Bars, Figure
from perfcast.report.values import percent

_GROUP = "mode, distribution"
_PRINTED = "published:"
#: In the order in which they stand side by side; others follow.
_ORDER = ("learned", "neusight", "habitat", "li2020", "roofline")
_COLOURS = dict(zip(_ORDER, palette.TURNS, strict=False))
#: Sets of steps: the group of their entries, their value there, and what they are called.
_TOTALS = (("mode", "inference", "inference"), ("mode", "train", "training"), ("all", "all", "all"))


def study_document(summary: Sequence[Entry], protocol: Mapping[str, Any]) -> Document:
    """A table of all predictors, and the same as bars: as the study printed them, and as trained here.

    Args:
        summary: Of ``validate neusight --study``.
        protocol: Its own.
    """
    sets = _sets(summary)
    names = _predictors(summary)
    blocks: list[Block] = []
    own = [name for name in names if not name.startswith(_PRINTED)]
    printed = [name for name in names if name == "learned" or name.startswith(_PRINTED)]
    for title, shown, figure in (
        ("As the study printed them", printed, "study-printed"),
        ("As trained and computed here", own, "study-trained"),
    ):
        blocks.append(Section(title=title, blocks=(_table(sets, shown), _chart(sets, shown, figure))))
    blocks += [_fitted(protocol["fitted_on"]), skipped_items(summary)]
    return Document(
        title="Whole steps of the NeuSight study, predictor by predictor",
        lead="mean absolute relative error of eager steps on one device for which the study printed all four",
        facts=(
            Fact(
                "Learned",
                "ours: unless devices are left out (--leave-out), kernels of all of them were learned",
            ),
            Fact("Others", "of the study: as it printed them, and as trained and computed here"),
            Fact("Seen", str(protocol["distribution"])),
            Fact("Left out", str(protocol["left_out"])),
        ),
        blocks=tuple(blocks),
    )


def _fitted(by_fold: Mapping[str, Mapping[str, Any]]) -> Items:
    """What the study's predictors learned from, and for how many epochs."""
    texts = dict.fromkeys(
        f"{name}: {text}"
        for predictors in by_fold.values()
        for name, text in predictors.items()
        if isinstance(text, str)
    )
    return Items(tuple(("·", text) for text in texts))


def _sets(summary: Sequence[Entry]) -> dict[str, dict[str, Entry]]:
    """Entries by predictor of each set of steps that holds any, totals last."""
    found: dict[str, dict[str, Entry]] = {}
    for entry in summary:
        if entry["group"] == _GROUP and entry["n"]:
            name = str(entry["value"]).replace("train, ", "training, ")
            found.setdefault(name, {})[entry["predictor"]] = entry
    found = dict(sorted(found.items()))
    for group, value, name in _TOTALS:
        mine = [e for e in summary if e["group"] == group and e["value"] == value and e["n"]]
        if mine:
            found[f"{name}, together" if name != "all" else "all"] = {e["predictor"]: e for e in mine}
    return found


def _predictors(summary: Sequence[Entry]) -> list[str]:
    """Ours, then each of the study's as trained here and as printed."""
    names = {entry["predictor"] for entry in summary if entry["n"]}

    def place(name: str) -> tuple[int, str]:
        plain = name.removeprefix(_PRINTED)
        return (_ORDER.index(plain) if plain in _ORDER else len(_ORDER), plain)

    return sorted(names, key=lambda name: (*place(name), name.startswith(_PRINTED)))


def _table(sets: Mapping[str, Mapping[str, Entry]], names: Sequence[str]) -> Table:
    return Table(
        title="Mean error in percent",
        columns=(
            Column("Steps", least_width=26, folds=False),
            Column("n"),
            *(Column(name.removeprefix(_PRINTED)) for name in names),
        ),
        rows=tuple(
            (name, _most(entries), *(_cell(entries.get(who), _most(entries)) for who in names))
            for name, entries in sets.items()
        ),
        is_wide=True,
    )


def _most(entries: Mapping[str, Entry]) -> int:
    return max(int(entry["n"]) for entry in entries.values())


def _cell(entry: Entry | None, num_steps: int) -> Cell | None:
    """'8.2', or '8.2 (3)' where a predictor has a forecast of fewer steps than others."""
    if entry is None:
        return None
    error = entry["mean_absolute_relative_error"]
    return hundredths(error) if entry["n"] == num_steps else Cell(f"{100 * error:.1f} ({entry['n']})", error)


def _chart(sets: Mapping[str, Mapping[str, Entry]], names: Sequence[str], figure: str) -> Figure:
    shown = {name: entries for name, entries in sets.items() if "together" not in name and name != "all"}
    labels = tuple(name.replace(", ", "\n") for name in shown)
    series = []
    for place, name in enumerate(names):
        errors = [_error(entries.get(name)) for entries in shown.values()]
        plain = name.removeprefix(_PRINTED)
        series.append(
            Bars(
                name=plain,
                labels=labels,
                values=tuple(errors),
                colours=_COLOURS.get(plain, palette.in_turns(len(names))[place]),
                texts=tuple("" if error is None else f"{100 * error:.0f}" for error in errors),
                hovers=tuple(
                    "" if error is None else f"{plain}\n{where}: {percent(error)} of {_most(entries)} steps"
                    for (where, entries), error in zip(shown.items(), errors, strict=True)
                ),
            )
        )
    drawn = [value for bars in series for value in bars.values if value] or [1.0]
    return Figure(
        name=figure,
        series=tuple(series),
        height=380,
        is_grouped=True,
        legend="above",
        x=Axis(scale="category"),
        y=Axis(
            title="mean error, percent",
            unit="share",
            scale="log",
            low=0.7 * min(drawn),
            high=1.2 * max(drawn),
            ticks=_TICKS,
        ),
    )


_TICKS = tuple((value, f"{100 * value:g}") for value in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0))


def _error(entry: Entry | None) -> float | None:
    return None if entry is None else entry["mean_absolute_relative_error"]
