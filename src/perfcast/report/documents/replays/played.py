"""A replay beside its recording, rank by rank."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from perfcast.replays.judge.fidelity import Fidelity, Pair
from perfcast.replays.program.program import ReplayProgram
from perfcast.report import palette
from perfcast.report.document import Block, Card, Cell, Column, Document, Fact, Items, Section, Table, words
from perfcast.report.figure import Axis, Bars, Curve, Figure, Rule
from perfcast.report.values import Unit, Value, format_value, percent
from perfcast.units import format_seconds

MAX_ROWS = 15
UNKNOWN = "not told"


def document_of(ranks: Sequence[Fidelity]) -> Document:
    """Everything that was found."""
    if len(ranks) == 1:
        (only,) = ranks
        return Document(
            title=f"Replay of {describe_program(only.program)}",
            cards=_cards(only),
            facts=_facts(only),
            blocks=_blocks(only),
        )
    sections = tuple(
        Section(
            title=f"Rank {one.program.rank}: {describe_program(one.program)}",
            cards=_cards(one),
            facts=_facts(one),
            blocks=_blocks(one),
        )
        for one in ranks
    )
    return Document(title=f"Replay of {len(ranks)} ranks", cards=_cards_of_all(ranks), blocks=sections)


def describe_program(program: ReplayProgram) -> str:
    """One line: what is played."""
    steps = f"{program.num_steps} step{'s' if program.num_steps > 1 else ''}"
    chosen = ", ".join(f"{key} {value}" for key, value in program.selection.items())
    rank = f", rank {program.rank} of {program.world_size}" if program.world_size > 1 else ""
    return f"{Path(program.source).name}{rank}: {len(program.calls)} calls of {steps} ({chosen})"


def _cards_of_all(ranks: Sequence[Fidelity]) -> tuple[Card, ...]:
    """What decides over all: the rank that plays least of its recording, and the one that works longest."""
    least = min(ranks, key=lambda one: one.operation_coverage)
    most = max(ranks, key=lambda one: one.processor.median)
    coverage, processor = _cards(least)[0], _cards(most)[1]
    return (
        replace(coverage, detail=f"{coverage.detail}, the least: rank {least.program.rank}"),
        replace(processor, detail=f"{processor.detail}, the most: rank {most.program.rank}"),
    )


def _cards(fidelity: Fidelity) -> tuple[Card, ...]:
    processor, steps = fidelity.processor, fidelity.played.steps
    repetitions = f"a step, {len(steps.processor_seconds)} repetitions"
    covered = fidelity.time_coverage
    recorded = "" if math.isnan(covered) else f", {percent(covered)} of their time"
    return (
        Card(
            label="Coverage",
            value=fidelity.operation_coverage,
            unit="share",
            detail=f"of {fidelity.num_recorded} recorded calls{recorded}",
        ),
        Card(
            label="Processor time",
            value=_known(processor.median),
            unit="s",
            low=_known(processor.low),
            high=_known(processor.high),
            detail=repetitions + (", interrupted" if steps.is_interrupted else ""),
        ),
    )


def _facts(fidelity: Fidelity) -> tuple[Fact, ...]:
    used = fidelity.utilisation
    watts = f"processors {_watts(used.processor_watts)}, device {_watts(used.device_watts)}"
    device = f"computing {_told(used.device, 'share')}, memory {_told(used.device_memory, 'share')}"
    busy = UNKNOWN if math.isnan(used.process) else f"{used.process:.2f}"
    found = [
        Fact("Host gaps", _gaps(fidelity)),
        Fact("Memory", f"prepared {fidelity.played.preparation.value}"),
        Fact("Processors", f"{busy} busy by the replay"),
        Fact("Power", watts),
        Fact("Device", device),
    ]
    if fidelity.num_replaced:
        found.append(Fact("Stand-ins", f"{fidelity.num_replaced} tensors do not come out as recorded"))
    return tuple(found)


def _gaps(fidelity: Fidelity) -> str:
    added = fidelity.played.added_gap_seconds / fidelity.program.num_steps
    kept = f", {format_seconds(added)} a step beside the replay's own" if fidelity.host_gaps != "off" else ""
    return fidelity.host_gaps + kept


def _watts(value: float) -> str:
    return UNKNOWN if math.isnan(value) else f"{value:.0f} W"


def _known(value: float) -> float | None:
    """A figure, or None where the machine does not tell it."""
    return None if math.isnan(value) else value


def _told(value: float, unit: Unit) -> str:
    return format_value(_known(value), unit, UNKNOWN)


def _blocks(fidelity: Fidelity) -> tuple[Block, ...]:
    step: tuple[tuple[Pair, Unit], ...] = (
        *((pair, "s") for pair in fidelity.step),
        (fidelity.launches, "number"),
        (fidelity.memory, "B"),
    )
    kinds: tuple[tuple[Pair, Unit], ...] = tuple((pair, "s") for pair in fidelity.kinds)
    suffix = f"-{fidelity.program.rank}" if fidelity.program.world_size > 1 else ""
    return (
        _pairs("A step", step, repetitions_figure(fidelity, f"repetitions{suffix}")),
        _pairs("Time by kind of work (watched)", kinds, beside_figure(fidelity.kinds, f"kinds{suffix}")),
        _collectives(fidelity),
        _left_out(fidelity),
        Items(tuple(("·", note) for note in fidelity.notes)),
    )


def beside_figure(pairs: Sequence[Pair], name: str) -> Figure | None:
    """Recorded and replayed time of each kind of work, side by side, longest on top."""
    known = [pair for pair in pairs if not math.isnan(pair.recorded) or not math.isnan(pair.replayed)]
    known = sorted(known, key=lambda pair: -max(_known(pair.recorded) or 0.0, _known(pair.replayed) or 0.0))
    if not known:
        return None
    labels = tuple(words(pair.label) for pair in known[:MAX_ROWS])
    sides = (
        ("recorded", palette.GREY, [pair.recorded for pair in known]),
        ("replayed", palette.BLUE, [pair.replayed for pair in known]),
    )
    return Figure(
        name=name,
        series=tuple(
            Bars(
                name=side,
                labels=labels,
                values=tuple(_known(value) for value in values[:MAX_ROWS]),
                colours=colour,
                texts=tuple(_told(value, "s") for value in values[:MAX_ROWS]),
                hovers=tuple(
                    f"{label}, {side}\n{_told(value, 's')}"
                    for label, value in zip(labels, values, strict=False)
                ),
            )
            for side, colour, values in sides
            if not all(map(math.isnan, values))
        ),
        is_horizontal=True,
        is_grouped=True,
        legend="above",
        height=100 + 40 * len(labels),
        x=Axis(unit="s", from_zero=True, title="of a step"),
        y=Axis(scale="category", is_reversed=True, has_grid=False),
    )


def repetitions_figure(fidelity: Fidelity, name: str) -> Figure | None:
    """The time of a step in every repetition, beside the recorded one; None of a single repetition."""
    played, num_steps = fidelity.played.steps, fidelity.program.num_steps
    seconds = tuple(one / num_steps for one in played.wall_seconds)
    if len(seconds) < 2:
        return None
    recorded = [pair.recorded for pair in fidelity.step if "wall" in pair.label]
    return Figure(
        name=name,
        series=(
            Curve(
                name="replayed",
                mode="markers",
                colour=palette.BLUE,
                x=tuple(range(1, len(seconds) + 1)),
                y=seconds,
                hovers=tuple(f"repetition {at}\n{format_seconds(one)}" for at, one in enumerate(seconds, 1)),
            ),
        ),
        height=260,
        rules=tuple(Rule(y=one, label="recorded", is_alarm=True) for one in recorded if not math.isnan(one)),
        x=Axis(title="repetition", low=0.5, high=len(seconds) + 0.5),
        y=Axis(title="wall time of a step", unit="s", from_zero=True),
    )


def _pairs(title: str, pairs: Sequence[tuple[Pair, Unit]], figure: Figure | None) -> Section:
    table = Table(
        columns=(
            Column("", folds=False),
            Column("Recorded"),
            Column("Replayed"),
            Column("Difference", "+share", missing=""),
        ),
        rows=tuple(
            (
                words(pair.label),
                _cell(pair.recorded, unit),
                _cell(pair.replayed, unit),
                _known(pair.relative_error),
            )
            for pair, unit in pairs
        ),
        things="kinds of work",
        most_rows=MAX_ROWS,
    )
    return Section(title=title, blocks=(table,) if figure is None else (figure, table))


def _cell(value: float, unit: Unit) -> Cell:
    """Rows have units of their own."""
    if math.isnan(value):
        return Cell(UNKNOWN)
    return Cell(format_value(round(value) if unit == "number" else value, unit), value)


def _collectives(fidelity: Fidelity) -> Section:
    table = Table(
        columns=(
            Column("Collective", folds=False),
            Column("Time", "s", missing=UNKNOWN),
            Column("Bus bandwidth", "B/s", missing=UNKNOWN),
            Column("", folds=False),
        ),
        rows=tuple(
            (
                one.name,
                _known(one.median_seconds),
                _known(one.bus_bytes_per_second),
                "emulated" if one.is_emulated else "asynchronous" if one.is_asynchronous else "",
            )
            for one in fidelity.collectives
        ),
        things="collectives",
        most_rows=MAX_ROWS,
    )
    return Section(title="Collectives", blocks=(table,))


def _left_out(fidelity: Fidelity) -> Section:
    rows: list[tuple[Value, ...]] = []
    for one in fidelity.left_out:
        reason = one.reason + (" (nothing is lost)" if one.is_harmless else "")
        rows.append((one.operator, one.count, _known(one.seconds), reason))
    table = Table(
        columns=(
            Column("Operator", folds=False, most_width=40),
            Column("Calls", "number"),
            Column("Recorded time", "s", only="page", missing=UNKNOWN),
            Column("Why"),
        ),
        rows=tuple(rows),
        things="reasons",
        most_rows=MAX_ROWS,
    )
    return Section(title="Left out", blocks=(table,))
