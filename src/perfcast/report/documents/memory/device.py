"""The memory of a step on one device: its peak, what that consists of, and the largest size that fits."""

from __future__ import annotations

from perfcast.core.forecast.device import Forecast, MemoryForecast, ReservedMemory
from perfcast.core.forecast.fit import first_said
from perfcast.core.forecast.largest import Largest
from perfcast.memory_use.compare import Comparison
from perfcast.report.blocks import name_shares
from perfcast.report.document import (
    Block,
    Card,
    Cell,
    Column,
    Document,
    Fact,
    Note,
    Section,
    Table,
    share_of,
    words,
)
from perfcast.report.documents.memory.curves import (
    largest_figure,
    memory_by_module_figure,
    reserved_figure,
)
from perfcast.report.documents.memory.intervals import intervals_figure
from perfcast.report.documents.program import program_facts
from perfcast.report.documents.step.device import (
    describe_peak,
    describe_title,
    describe_workload,
    memory_blocks,
    need_card,
)
from perfcast.report.values import percent
from perfcast.units import format_bytes

MAX_TENSORS = 12

_WORDS = {"batch_size": "batch size", "sequence_length": "sequence length"}


def document_of(
    forecast: Forecast, largest: Largest | None = None, comparison: Comparison | None = None
) -> Document:
    """The peak, what it consists of, the allocator, and the largest tensors with the lines that make them.

    Args:
        largest: The search whose answer (or smallest size, if nothing fits) the forecast is of.
        comparison: The closed form beside the captured step.
    """
    memory = forecast.memory
    blocks: list[Block] = [] if largest is None else [_largest(largest)]
    blocks.append(Section(title="Memory at the peak", blocks=memory_blocks(forecast)))
    by_module = memory_by_module_figure(forecast)
    blocks.append(Section(title="Memory over the step, by module", blocks=(by_module,), only="page"))
    blocks.append(Section(title="Alive at the peak", blocks=_alive(memory)))
    if memory.intervals:
        note = (
            "From what makes a tensor to its last reference: those that take most room for longest, in the "
            "order in which they are made."
        )
        lives = (intervals_figure(forecast), Note(note))
        blocks.append(Section(title="How long tensors live", blocks=lives, only="page"))
    if memory.reserved is not None:
        blocks.append(_reserved(memory.reserved, memory.capacity_bytes))
    if comparison is not None:
        blocks.append(_comparison(comparison))
    return Document(
        title=f"Memory of {describe_title(forecast)}",
        verdict=first_said((forecast.fit,)),
        lead=describe_workload(forecast),
        limits=name_shares(
            "Held at the peak:", {words(name): held for name, held in memory.bytes_by_category.items()}
        ),
        cards=(*_largest_card(largest), *_cards(forecast)),
        facts=(*program_facts(forecast.program, forecast.defaults), *_facts(memory)),
        blocks=tuple(blocks),
        assumptions=forecast.assumptions,
    )


def _cards(forecast: Forecast) -> tuple[Card, ...]:
    memory, reserved = forecast.memory, forecast.memory.reserved
    found = [
        need_card(memory, "Needed"),
        Card(label="Tensors", value=memory.peak_bytes, unit="B", detail="at the peak"),
    ]
    if reserved is not None:
        found += [
            Card(
                label="Reserved",
                value=reserved.peak_bytes,
                unit="B",
                detail=f"by the caching allocator, {percent(reserved.fragmentation)} unused at its peak",
            ),
            _context(reserved),
        ]
    by_size = sorted(memory.bytes_by_category.items(), key=lambda item: -item[1])
    found += [
        Card(
            label=words(name).capitalize(),
            value=n,
            unit="B",
            only="page",
            detail=f"{100 * n / memory.peak_bytes:.0f} % of the peak",
        )
        for name, n in by_size[:2]
        if n
    ]
    return (*found, Card(label="Parameters", value=forecast.parameter_count, unit="count"))


def _context(reserved: ReservedMemory) -> Card:
    """The driver's context, with the range that was measured."""
    if not reserved.context_bytes:
        return Card(label="Context", value=None, unit="B", detail="not counted: none was measured")
    return Card(
        label="Context",
        value=reserved.context_bytes,
        unit="B",
        low=reserved.context_low_bytes,
        high=reserved.context_high_bytes,
        detail="of the driver, as measured",
    )


def _facts(memory: MemoryForecast) -> tuple[Fact, ...]:
    found = [
        Fact("At last use", f"{format_bytes(memory.peak_by_last_use_bytes)} if each tensor were freed then")
    ]
    if memory.reserved is not None and memory.reserved.num_retries:
        found.append(Fact("Retries", f"cached memory is given back {memory.reserved.num_retries} times"))
    return tuple(found)


def _reserved(reserved: ReservedMemory, capacity_bytes: int) -> Section:
    settings = f" with {reserved.settings}" if reserved.settings else ""
    note = f"PyTorch's caching allocator{settings} in the first {len(reserved.step_starts)} steps."
    figure = reserved_figure(reserved, capacity_bytes)
    return Section(title="Reserved memory", blocks=(figure, Note(note)), only="page")


def _largest_card(largest: Largest | None) -> tuple[Card, ...]:
    if largest is None:
        return ()
    label = f"Largest {_WORDS[largest.quantity]}"
    if largest.value is None:
        return (Card(label=label, value="none fits", severity="alarm"),)
    return (Card(label=label, value=largest.value, unit="number"),)


def _largest(largest: Largest) -> Section:
    sizes = ", ".join(str(probe.size) for probe in largest.probes)
    note = f"{len(largest.probes)} captures, at {sizes}; memory is taken to grow with the size."
    answer = Note(describe_largest(largest), "alarm" if largest.value is None else "good")
    return Section(title="Largest that fits", blocks=(answer, largest_figure(largest), Note(note)))


def describe_largest(largest: Largest) -> str:
    """The answer of a search in a sentence."""
    what = _WORDS[largest.quantity]
    capacity = format_bytes(largest.capacity_bytes)
    by_size = {probe.size: probe for probe in largest.probes}
    if largest.value is None:
        if not largest.probes:
            return f"No {what} was tried"
        smallest = min(largest.probes, key=lambda probe: probe.size)
        need = format_bytes(smallest.needed_bytes)
        return f"Nothing fits: {what} {smallest.size} needs {need} of {capacity}"
    need = format_bytes(by_size[largest.value].needed_bytes)
    answer = f"{what} {largest.value}: {need} of {capacity}"
    if not largest.is_complete:
        return f"Interrupted; the largest known to fit is {answer}"
    following = by_size.get(largest.value + 1)
    if following is not None:
        return f"Largest {answer}; {following.size} needs {format_bytes(following.needed_bytes)}"
    return f"Largest {answer}; {largest.limit or 'the search goes no further'}"


def _alive(memory: MemoryForecast) -> tuple[Table, Note]:
    groups = memory.alive_at_peak
    table = Table(
        columns=(
            Column("Bytes", "B"),
            Column("Share", "share", only="page"),
            Column("Tensors"),
            Column("Category", folds=False),
            Column("Operation"),
            Column("Module"),
            Column("Line of code", only="terminal"),
            Column("Line of code", only="page"),
        ),
        rows=tuple(
            (
                group.total_bytes,
                share_of(group.total_bytes, memory.peak_bytes),
                Cell(_blocks(group.count, group.num_bytes), group.num_bytes),
                words(group.category),
                group.operation or "before the step",
                group.module or None,
                _line(group.created_at),
                group.created_at or None,
            )
            for group in groups
        ),
        things=_things(memory),
        most_rows=MAX_TENSORS,
    )
    note = (
        f"Everything that is held {describe_peak(memory)}: equal tensors together, those with most bytes "
        "first. A tensor of the backward carries the line of the forward that it belongs to."
    )
    return table, Note(note, only="page")


def _things(memory: MemoryForecast) -> str:
    rest = sum(group.total_bytes for group in memory.alive_at_peak[MAX_TENSORS:])
    return f"groups of equal tensors; the others hold {format_bytes(rest)}"


def _line(created_at: str) -> str | None:
    """File and line."""
    return created_at.partition(" in ")[0] or None


def _blocks(count: int, num_bytes: int) -> str:
    """How many of which size."""
    size = format_bytes(num_bytes)
    return size if count == 1 else f"{count} × {size}"


def _comparison(comparison: Comparison) -> Section:
    differences = tuple(
        (f"{words(row.category)}: {row.name}", row.closed_form_bytes, row.graph_bytes, row.difference_bytes)
        for row in comparison.differences
    )
    table = Table(
        columns=(
            Column("Name"),
            Column("Closed form", "B"),
            Column("Captured", "B"),
            Column("Difference", "+B"),
        ),
        rows=differences,
        things="differences",
        most_rows=MAX_TENSORS,
        total=(
            f"peak ({comparison.moment})",
            comparison.closed_form_bytes,
            comparison.graph_bytes,
            Cell(f"{100 * comparison.relative_error:+.2f} %"),
        ),
    )
    return Section(title="Closed form and captured step", blocks=(table,))
