"""The forecast of a step on one device."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from perfcast.core.forecast.device import Forecast, KindTime, MemoryForecast, OperationTime
from perfcast.core.forecast.fit import first_said
from perfcast.report import palette
from perfcast.report.blocks import SHARE, amount_bars, name_shares, share_table
from perfcast.report.document import (
    Card,
    Column,
    Document,
    Fact,
    Note,
    Section,
    Table,
    share_of,
    words,
)
from perfcast.report.documents.memory.curves import memory_figure
from perfcast.report.documents.program import program_facts
from perfcast.report.documents.step.layers import layers_section
from perfcast.report.documents.step.modules import module_seconds, parent_of
from perfcast.report.documents.step.timeline import timeline_section
from perfcast.report.figure import Axis, Curve, Figure, Treemap
from perfcast.report.values import Value, format_value, percent
from perfcast.units import format_bytes, format_count, format_seconds

MAX_OPERATIONS = 10
MAX_BARS = 16
#: Below this share of a step the host is only named.
_LEAST_HOST_SHARE = 0.02


def document_of(forecast: Forecast) -> Document:
    """Headline, where the time and the memory go, what was assumed."""
    return Document(
        title=describe_title(forecast),
        verdict=first_said((forecast.fit,)),
        lead=describe_workload(forecast),
        limits=name_shares("Limited by", _limits(forecast)),
        cards=_cards(forecast),
        facts=_facts(forecast),
        blocks=(
            _phases(forecast),
            _kinds(forecast),
            layers_section(forecast),
            _modules(forecast),
            _roofline(forecast),
            timeline_section(forecast),
            Section(title="Slowest operations", blocks=(_operations(forecast),)),
            Section(title="Memory at the peak", blocks=memory_blocks(forecast)),
        ),
        assumptions=forecast.assumptions,
    )


def describe_title(forecast: Forecast) -> str:
    """Model and device."""
    return f"{forecast.model} on {forecast.device_title or forecast.device}"


def describe_workload(forecast: Forecast) -> str:
    """Mode, batch and precision, as a phrase."""
    length = f" × {forecast.sequence_length} tokens" if forecast.sequence_length is not None else ""
    return f"{forecast.mode} · batch {forecast.batch_size}{length} · {forecast.dtype}"


def describe_peak(memory: MemoryForecast) -> str:
    """Where the peak is, as a phrase."""
    where = f" of {memory.peak_module}" if memory.peak_module else ""
    return f"at {memory.peak_operation}{where}, in the {memory.peak_phase} (node {memory.peak_node})"


def need_card(memory: MemoryForecast, label: str) -> Card:
    """What is needed against the device's memory."""
    spare = format_bytes(abs(memory.capacity_bytes - memory.needed_bytes))
    return Card(
        label=label,
        value=memory.needed_bytes,
        unit="B",
        whole=memory.capacity_bytes,
        detail=f"fits, {spare} free" if memory.fits else f"does not fit, {spare} too much",
        severity="plain" if memory.fits else "alarm",
    )


def _cards(forecast: Forecast) -> tuple[Card, ...]:
    waits = forecast.exposed_host_seconds
    is_paced = waits >= _LEAST_HOST_SHARE * forecast.step_seconds and waits > 0
    samples = forecast.samples_per_second
    tokens = forecast.tokens_per_second
    has_recompute = bool(forecast.recompute_flops)
    return (
        Card(
            label="Step time",
            value=forecast.step_seconds,
            unit="s",
            low=forecast.step_seconds_low,
            high=forecast.step_seconds_high,
            detail=f"{format_seconds(waits)} of it waiting for the host" if is_paced else "",
        ),
        Card(label="Throughput", value=samples, unit="samples/s")
        if tokens is None
        else Card(
            label="Throughput", value=tokens, unit="tokens/s", detail=format_value(samples, "samples/s")
        ),
        Card(
            label="MFU",
            value=forecast.mfu,
            unit="share",
            detail=f"HFU {percent(forecast.hfu)}" if has_recompute else "",
        ),
        need_card(forecast.memory, "Peak memory"),
        Card(label="Parameters", value=forecast.parameter_count, unit="count"),
    )


def _facts(forecast: Forecast) -> tuple[Fact, ...]:
    known = describe_provenance(forecast.seconds_by_provenance)
    named = Fact("Cost model", forecast.cost_model)
    said = (*program_facts(forecast.program, forecast.defaults), *_host_facts(forecast))
    return (*said, named, Fact("Time that is", known)) if known else (*said, named)


def _host_facts(forecast: Forecast) -> tuple[Fact, ...]:
    """The part of the step that the host dictates, and what would help; nothing where none issues kernels."""
    host = forecast.host
    if host is None:
        return ()
    usual = ", usual with this device" if host.is_chosen else ""
    named = Fact("Host", f"{host.title}{usual}: issues the step in {format_seconds(host.busy_seconds)}")
    share = share_of(host.waits_seconds, forecast.step_seconds)
    if share < _LEAST_HOST_SHARE:
        return (named,)
    ways = {
        "eager": "--compile, --cuda-graphs or a larger batch",
        "compiled": "--cuda-graphs or a larger batch",
    }
    dictated = f"dictates {format_seconds(host.waits_seconds)} of the step ({percent(share)}; "
    between = f"{format_seconds(host.waits_seconds_low)} to {format_seconds(host.waits_seconds_high)})"
    way = ways.get(host.mode)
    saved = f"; {way} would help: a CUDA graph saves {format_seconds(host.saved_by_graphs_seconds)}"
    return named, Fact("", f"{dictated}{between}{saved if way else ''}")


def describe_provenance(seconds: Mapping[str, float]) -> str:
    """Shares of a time by what its prices rest on, as a phrase; '' where there is one tag alone."""
    total = sum(seconds.values())
    if not total or set(seconds) <= {"", "fitted", "bounded"}:
        return ""
    return " · ".join(f"{tag} {percent(value / total)}" for tag, value in seconds.items())


def _phases(forecast: Forecast) -> Section:
    phases = forecast.seconds_by_phase
    colours = [palette.PHASES.get(phase, palette.GREY) for phase in phases]
    bars = amount_bars("phases", phases, total=sum(phases.values()), colours=colours)
    return Section(title="Time by phase", blocks=(bars, share_table("", "Phase", phases)))


def _kinds(forecast: Forecast) -> Section:
    groups = sorted((g for g in forecast.by_kind if g.seconds), key=lambda g: -g.seconds)
    limits = bound_by_kind(forecast.operations)
    table = Table(
        columns=(Column("Kind", folds=False), *_GROUP_COLUMNS, Column("Bound by", folds=False)),
        rows=tuple((words(g.label), *_group(g, forecast.by_kind), limits.get(g.label, "–")) for g in groups),
    )
    return Section(title="Time by kind of operation", blocks=(kinds_figure(forecast), table))


#: Columns of a group of nodes.
_GROUP_COLUMNS = (
    Column("Time", "s"),
    SHARE,
    Column("Count"),
    Column("FLOP", "count", only="page"),
    Column("Memory traffic", "B", only="page"),
)


def _group(group: KindTime, groups: Sequence[KindTime]) -> tuple[Value, ...]:
    total = sum(one.seconds for one in groups)
    share = share_of(group.seconds, total)
    return group.seconds, share, group.count, group.flops, group.memory_traffic_bytes


def kinds_figure(forecast: Forecast) -> Figure:
    """Time by kind of operation, longest on top."""
    groups = sorted((g for g in forecast.by_kind if g.seconds), key=lambda g: -g.seconds)[:MAX_BARS]
    return amount_bars(
        "kinds",
        [(words(group.label), group.seconds) for group in groups],
        total=sum(group.seconds for group in forecast.by_kind),
        colours=[palette.FAMILIES.get(group.label, palette.OTHER_FAMILY)[1] for group in groups],
        notes=[f"{group.count} issues\n{format_count(group.flops, 'FLOP')}" for group in groups],
    )


def _limits(forecast: Forecast) -> dict[str, float]:
    """Seconds of the step by what limits them; what the device waits for is the host's."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for operation in forecast.operations:
        seconds[operation.bound_by] += operation.seconds
    seconds["host"] += forecast.exposed_host_seconds
    return dict(seconds)


def bound_by_kind(operations: Sequence[OperationTime]) -> dict[str, str]:
    """What limits most of each kind's time."""
    seconds: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for operation in operations:
        seconds[operation.kind][operation.bound_by] += operation.seconds
    return {kind: max(limits, key=limits.__getitem__) for kind, limits in seconds.items()}


def _modules(forecast: Forecast) -> Section:
    groups = sorted(forecast.by_module, key=lambda g: -g.seconds)
    table = Table(
        columns=(Column("Module"), *_GROUP_COLUMNS),
        rows=tuple((group.label or "(model)", *_group(group, groups)) for group in groups),
        things="modules",
        only="page",
    )
    return Section(title="Time by module", blocks=(modules_figure(forecast), table), only="page")


def modules_figure(forecast: Forecast) -> Figure:
    """Time by module, nested as the modules are."""
    seconds = module_seconds(forecast.by_module)
    total = seconds[""]
    texts = tuple(f"{format_seconds(s)} · {percent(share_of(s, total))}" for s in seconds.values())
    tree = Treemap(
        ids=tuple(seconds),
        parents=tuple(parent_of(path) for path in seconds),
        labels=tuple(_module_label(path) if path else "model" for path in seconds),
        values=tuple(seconds.values()),
        texts=texts,
        hovers=tuple(f"{path or 'model'}\n{text}" for path, text in zip(seconds, texts, strict=True)),
    )
    return Figure(name="modules", series=(tree,), height=440)


def _module_label(path: str) -> str:
    parent = parent_of(path)
    return path[len(parent) + 1 :] if parent else path


def _roofline(forecast: Forecast) -> Section:
    note = (
        "Each marker is one different operation; its area is its share of the step. "
        "Operations without arithmetic, such as copies, have no place here."
    )
    return Section(title="Roofline", blocks=(roofline_figure(forecast), Note(note)), only="page")


def roofline_figure(forecast: Forecast) -> Figure:
    """Achieved rate against arithmetic intensity, under the peaks of device and memory."""
    shown = [o for o in forecast.operations if o.flops and o.memory_traffic_bytes and o.seconds > 0]
    total = sum(operation.seconds for operation in forecast.operations)
    families: dict[tuple[str, str], list[OperationTime]] = {}
    for operation in sorted(shown, key=lambda o: -o.seconds):
        family = palette.FAMILIES.get(operation.kind, palette.OTHER_FAMILY)
        families.setdefault(family, []).append(operation)
    markers = tuple(
        Curve(
            name=name,
            mode="markers",
            colour=colour,
            opacity=0.75,
            x=tuple(o.flops / o.memory_traffic_bytes for o in members),
            y=tuple(o.flops / o.seconds for o in members),
            areas=tuple(o.seconds / total for o in members),
            hovers=tuple(_operation_hover(operation, total) for operation in members),
        )
        for (name, colour), members in families.items()
    )
    return Figure(
        name="roofline",
        series=(*_roof(forecast, shown), *markers),
        height=460,
        legend="above",
        x=Axis(title="arithmetic intensity (FLOP/byte)", scale="log"),
        y=Axis(title="achieved rate", scale="log", unit="FLOP/s"),
    )


def _roof(forecast: Forecast, shown: Sequence[OperationTime]) -> tuple[Curve, Curve]:
    peak, bandwidth = forecast.peak_flops_per_second, forecast.memory_bytes_per_second
    ridge = peak / bandwidth
    intensities = [operation.flops / operation.memory_traffic_bytes for operation in shown]
    low, high = min([*intensities, ridge / 100]) / 2, max([*intensities, ridge * 10]) * 2
    line = Curve(x=(low, ridge, high), y=(low * bandwidth, peak, peak), colour=palette.INK)
    middle = (low * ridge) ** 0.5
    names = Curve(
        x=(middle, high),
        y=(middle * bandwidth, peak),
        colour=palette.INK,
        mode="text",
        texts=(format_count(bandwidth, "B/s"), f"peak {format_count(peak, 'FLOP/s')}"),
        text_place="top left",
    )
    return line, names


def _operation_hover(operation: OperationTime, total: float) -> str:
    return "\n".join(
        (
            f"{operation.name} ({operation.phase})",
            operation.shapes,
            f"{format_seconds(operation.seconds)} · {percent(operation.seconds / total)} of the step",
            format_count(operation.flops / operation.seconds, "FLOP/s"),
            f"bound by {operation.bound_by}",
        )
    )


def _operations(forecast: Forecast) -> Table:
    total = sum(operation.seconds for operation in forecast.operations)
    return Table(
        columns=(
            Column("Operation", folds=False, most_width=26),
            Column("Phase", folds=False),
            Column("Shapes", most_width=60),
            Column("Count"),
            Column("Time", "s"),
            Column("Low", "s", only="page"),
            Column("High", "s", only="page"),
            Column("Share", "share"),
            Column("Output", "B", only="page"),
            Column("Bound by", only="page"),
            Column("Price", only="page"),
            Column("Nearest measurement", only="page"),
        ),
        rows=tuple(
            (
                o.name,
                o.phase,
                o.shapes,
                o.count,
                o.seconds,
                o.seconds_low,
                o.seconds_high,
                share_of(o.seconds, total),
                o.output_bytes,
                o.bound_by,
                o.provenance,
                o.nearest,
            )
            for o in sorted(forecast.operations, key=lambda o: -o.seconds)
        ),
        things="different operations",
        most_rows=MAX_OPERATIONS,
    )


def memory_blocks(forecast: Forecast) -> tuple[Figure, Table, Note, Note]:
    """Memory over the step by category, and what its peak consists of."""
    memory = forecast.memory
    held = sorted(memory.bytes_by_category.items(), key=lambda item: -item[1])
    table = share_table(
        "",
        "Category",
        [(words(name), num_bytes) for name, num_bytes in held if num_bytes],
        unit="B",
        amount="Memory",
    )
    note = (
        f"Freeing each block right after its last use would need "
        f"{format_bytes(memory.peak_by_last_use_bytes)}. "
        f"The device has {format_bytes(memory.capacity_bytes)}."
    )
    return memory_figure(forecast), table, Note(f"Peak {describe_peak(memory)}"), Note(note, only="page")
