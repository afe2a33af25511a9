"""Kernels measured on a device, beside their forecasts."""

from __future__ import annotations

from collections.abc import Iterator

from perfcast.measure.few.answer import MeasuredAnswer
from perfcast.measure.few.compare import mean_error
from perfcast.report.document import Card, Column, Document, Fact, Items, Note, Table


def document_of(answer: MeasuredAnswer) -> Document:
    """What was measured, what was forecast of it before, and what the other kernels make of it."""
    measured, compared = answer.run.measured, answer.comparisons
    rows = tuple((c.name, c.measured_seconds, c.before_seconds, c.after_seconds) for c in compared)
    columns = (
        Column("kernel", folds=False),
        Column("measured", "s"),
        Column("forecast before", "s", short="before"),
        Column("forecast by the others", "s", short="by others"),
    )
    cards: tuple[Card, ...] = ()
    if compared:
        before, after = mean_error(compared, after=False), mean_error(compared, after=True)
        cards = (
            Card(label="Mean error before", value=before, unit="share"),
            Card(label="Each by all the others", value=after, unit="share"),
        )
    facts = (
        Fact("Device", answer.device.title),
        *((Fact("Setup", measured.setup),) if measured.setup else ()),
    )
    left_out = tuple((each.name, each.reason) for each in answer.run.left_out)
    return Document(
        title=f"{measured.describe()}",
        cards=cards,
        facts=facts,
        blocks=(
            Table(columns=columns, rows=rows, things="kernels", most_rows=None),
            *(Note(text, "alarm") for text in _warnings(answer)),
            *((Items(left_out),) if left_out else ()),
        ),
        assumptions=(
            f"every forecast by 'learned' for --device {measured.device} takes these kernels into account",
            "kernels alone: host, communication and memory are forecast as before",
        ),
    )


def _warnings(answer: MeasuredAnswer) -> Iterator[str]:
    if answer.run.is_throttled:
        yield (
            f"the same product took up to {answer.run.slowdown - 1:.0%} longer than at its best: clocks "
            "fell while kernels were measured; cool the device, stop what else runs there, then --restart"
        )
    if answer.run.forgotten:
        yield f"{answer.run.forgotten} kernels measured with another PyTorch, CUDA or device no longer count"
    if answer.run.left_out:
        yield f"{len(answer.run.left_out)} kernels have no measurement:"
