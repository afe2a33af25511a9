"""An explained recording: where the time went, the critical path, host overheads, collectives, ranks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perfcast.report import palette
from perfcast.report.blocks import SHARE, amount_bars, share_table, stacked_bars
from perfcast.report.document import (
    Block,
    Card,
    Cell,
    Column,
    Document,
    Fact,
    Items,
    Note,
    Section,
    Table,
    share_of,
    words,
)
from perfcast.report.documents.traces.compared import compared_section
from perfcast.report.documents.traces.names import short_name
from perfcast.report.figure import Figure
from perfcast.report.values import Value, percent
from perfcast.traces.explain.breakdown import TimeShare
from perfcast.traces.explain.compare import Comparison, device_parts
from perfcast.traces.explain.recordings import Explanation, RankExplanation
from perfcast.traces.timeline.program import Overhead
from perfcast.units import format_seconds

MAX_ROWS, MAX_LABEL = 12, 40
MAX_BARS = 14

#: What the five kinds of host overhead are.
OVERHEADS = {
    Overhead.BETWEEN: "between operators",
    Overhead.BEFORE: "before an operator's first launch",
    Overhead.AFTER: "after its last launch",
    Overhead.CALL: "launches and other calls",
    Overhead.INSIDE: "between launches, operators that launch nothing",
}
_PLATFORMS = {"cuda": "a CUDA device", "rocm": "a ROCm device"}
_PARTS = (palette.BLUE, palette.ORANGE, palette.YELLOW, palette.RED, palette.PINK, palette.GREY)
_BOUNDS = {
    "host": palette.RED,
    "data loading": palette.YELLOW,
    "device compute": palette.BLUE,
    "device communication": palette.ORANGE,
    "between kernels": palette.PINK,
    "launch": palette.PURPLE,
}


def document_of(explanation: Explanation, comparison: Comparison | None = None) -> Document:
    """All of it; the first rank stands for those like it.

    Args:
        comparison: What changed since another recording.
    """
    first = explanation.ranks[0]
    own = first.breakdown
    shares = (
        _shares("Work by kind", "kinds", "Kind", own.kinds),
        _shares("By phase", "phases", "Phase", own.phases),
        _shares("By module", "modules", "Module", own.modules),
        _shares("By marked range", "ranges", "Range", own.ranges),
        _shares("By kernel", "", "Kernel", own.kernels),
        _shares("By operator", "", "Operator", own.operators),
    )
    blocks: list[Block | None] = [
        _device_time(explanation),
        compared_section(comparison) if comparison else None,
        *shares,
        _overheads(first),
        _path(first),
        _collectives(explanation),
        _ranks(explanation),
    ]
    if explanation.notes:
        blocks.append(Items(tuple(("·", note) for note in explanation.notes)))
    return Document(
        title=_describe(explanation),
        cards=_cards(explanation),
        facts=_facts(explanation),
        blocks=tuple(block for block in blocks if block is not None),
    )


def _describe(explanation: Explanation) -> str:
    """One line: what was recorded."""
    first = explanation.ranks[0].breakdown
    ranks = len(explanation.ranks)
    who = f"{ranks} ranks" if ranks > 1 else f"rank {first.rank} of {first.world_size}"
    what = first.device or (
        _PLATFORMS.get(first.platform, "an accelerator") if first.on_device else "a processor"
    )
    steps = len(first.step_seconds)
    when = f"{steps} marked step{'s' if steps > 1 else ''}" if steps else "no marked steps"
    return f"{Path(first.source).name}: {who} on {what}, {when}"


def _cards(explanation: Explanation) -> tuple[Card, ...]:
    own = explanation.ranks[0].breakdown
    time, total = own.device_time, own.device_time.window_seconds or 1.0
    steps = len(own.step_seconds)
    mean = "no marked steps" if not steps else "one marked step" if steps == 1 else f"mean of {steps} steps"
    several = len(explanation.ranks) > 1
    if several:
        mean += f", on rank {explanation.slowest_rank}, which takes longest"
    whose = f"of rank {own.rank}, as all below but collectives and the comparison of ranks" if several else ""
    waits = "device waits for the host" if own.on_device else "no operator runs"
    computing = f"{percent(time.compute_seconds / total)} of the window computing"
    found = [
        Card(label="Step", value=explanation.mean_step_seconds, unit="s", detail=mean),
        Card(label="Window", value=time.window_seconds, unit="s", detail=whose),
        Card(label="Busy", value=time.busy_seconds / total, unit="share", detail=computing),
        Card(label="Host-bound", value=time.host_bound_share, unit="share", detail=waits),
    ]
    if time.communication_seconds:
        hidden = percent(time.overlap_seconds / time.communication_seconds)
        exposed = percent(time.exposed_communication_seconds / total)
        detail = f"{hidden} of it beside computing, {exposed} of the window exposed"
        found.append(Card(label="Communication", value=time.communication_seconds, unit="s", detail=detail))
    if own.num_launches:
        found.append(Card(label="Launches", value=own.num_launches, unit="number"))
    stragglers = [str(load.rank) for load in explanation.imbalance.ranks if load.is_straggler]
    if stragglers:
        names, detail = ", ".join(stragglers), "come last to collectives"
        found.append(Card(label="Stragglers", value=names, detail=detail, severity="alarm"))
    return tuple(found)


def _facts(explanation: Explanation) -> tuple[Fact, ...]:
    seconds = explanation.ranks[0].breakdown.step_seconds
    if not seconds:
        return ()
    steps = ", ".join(format_seconds(each) for _, each in seconds[:6])
    return (Fact("Steps", steps + (", …" if len(seconds) > 6 else "")),)


def _device_time(explanation: Explanation) -> Section:
    note = (
        "A device that stands still waits for the host until the next kernel is launched, then for the "
        "kernel to start; longer waits have another cause. The parts add up to the window."
    )
    parts = [(part.label, part.seconds) for part in device_parts(explanation.breakdowns[0])]
    table = share_table("", "Part", [part for part in parts if part[1] > 0])
    return Section(
        title="Where the device's time went",
        blocks=(device_figure(explanation), table, Note(note, only="page")),
    )


def device_figure(explanation: Explanation) -> Figure:
    """Each rank's time as one bar, cut into its parts."""
    columns = [device_parts(own) for own in explanation.breakdowns]
    return stacked_bars(
        "device",
        [f"rank {own.rank}" for own in explanation.breakdowns],
        [
            (columns[0][index].label, colour, [column[index].seconds for column in columns])
            for index, colour in enumerate(_PARTS)
        ],
        totals=[own.window_seconds for own in explanation.breakdowns],
    )


def _shares(title: str, name: str, label: str, shares: Sequence[TimeShare]) -> Section | None:
    shown = [item for item in shares if item.seconds > 0]
    if not shown:
        return None
    total = sum(item.seconds for item in shares)
    table = Table(
        columns=(
            Column(label, folds=False, most_width=MAX_LABEL, cut="left" if label == "Module" else "right"),
            Column("Kind", only="page"),
            Column("Time", "s"),
            SHARE,
            Column("Count", "number", only=None if any(item.count > 1 for item in shares) else "page"),
            Column("Mean", "s", only="page"),
        ),
        rows=tuple(_share(item, label, total) for item in shown),
        things=f"{label.lower()}s",
        most_rows=MAX_ROWS,
    )
    blocks = (shares_figure(name, label, shares), table) if name else (table,)
    return Section(title=title, blocks=blocks, only="page" if label == "Operator" else None)


def _share(item: TimeShare, label: str, total: float) -> tuple[Value, ...]:
    share, kind = share_of(item.seconds, total), words(item.kind) or None
    return (_name(item, label), kind, item.seconds, share, item.count, item.mean_seconds)


def _name(item: TimeShare, label: str) -> str:
    if label == "Kind":
        return words(item.label)
    return (short_name(item.label) if item.kind else item.label) or "(none)"


def shares_figure(name: str, label: str, shares: Sequence[TimeShare]) -> Figure:
    """Labels with their seconds, longest on top; coloured by family where they are kinds or have one."""
    shown = [item for item in shares if item.seconds > 0][:MAX_BARS]
    kinds = [item.label if label == "Kind" else item.kind for item in shown]
    return amount_bars(
        name,
        [(_name(item, label), item.seconds) for item in shown],
        total=sum(item.seconds for item in shares),
        colours=[
            palette.FAMILIES.get(kind, palette.OTHER_FAMILY)[1] if kind else palette.BLUE for kind in kinds
        ],
        notes=[f"{item.count:,} times" for item in shown],
        cuts_left=label == "Module",
    )


def _overheads(rank: RankExplanation) -> Section | None:
    if not rank.overheads:
        return None
    total = sum(item.seconds for item in rank.overheads)
    table = Table(
        columns=(
            Column("", folds=False),
            Column("What"),
            Column("Time", "s"),
            Column("Share", "share", only="page"),
            Column("Mean", "s"),
            Column("Count", "number"),
        ),
        rows=tuple(
            (
                item.overhead.value,
                OVERHEADS[item.overhead],
                item.seconds,
                share_of(item.seconds, total),
                item.mean_seconds,
                item.count,
            )
            for item in rank.overheads
        ),
    )
    return Section(title="Host overheads, without waiting", blocks=(table,))


#: Of a window, above which nothing is said of the rest.
_WHOLE = 0.98


def _path(rank: RankExplanation) -> Section | None:
    path = rank.critical_path
    if not path.stretches:
        return None
    longest = sorted((s for s in path.stretches if s.seconds > 0), key=lambda s: -s.seconds)
    stretches = Table(
        columns=(
            Column("Spent on"),
            Column("Stretch"),
            Column("From", "s"),
            Column("Time", "s"),
            Column("Event"),
        ),
        rows=tuple(
            (s.bound_by.value, s.kind.value, s.start_seconds, s.seconds, short_name(s.name) or None)
            for s in longest
        ),
        things="stretches; the timeline shows all of them",
        only="page",
    )
    spent = path.seconds_by_bound
    figure = amount_bars(
        "path",
        spent,
        total=sum(spent.values()),
        colours=[_BOUNDS.get(name, palette.GREY) for name in spent],
    )
    share = min(path.seconds / (rank.breakdown.window_seconds or 1.0), 1.0)
    title = (
        f"Critical path: {format_seconds(path.seconds)}, {percent(share)} of the window, in "
        f"{len(path.stretches):,} stretches"
    )
    table = share_table("", "Spent on", spent, total=path.seconds)
    rest = (
        "What is left of the window are pauses between operators of the host: no recorded event spent them."
    )
    return Section(title=title, blocks=(figure, table, *((Note(rest),) if share < _WHOLE else ()), stretches))


def _collectives(explanation: Explanation) -> Section | None:
    if not explanation.collectives:
        return None
    table = Table(
        columns=(
            Column("Collective", folds=False),
            Column("Message", "B"),
            Column("Ranks"),
            Column("Count", "number"),
            Column("Time", "s"),
            Column("Transfer", "s"),
            Column("Bus bandwidth", "B/s"),
        ),
        rows=tuple(
            (
                f"{words(item.name)} {item.dtype}".strip(),
                item.message_bytes or None,
                item.group_size,
                item.count,
                item.seconds,
                item.transfer_seconds,
                item.bus_bytes_per_second if item.bus_bytes else None,
            )
            for item in explanation.collectives
        ),
        things="collectives",
        most_rows=MAX_ROWS,
    )
    ranks = explanation.breakdowns
    whose = f"{len(ranks)} ranks" if len(ranks) > 1 else f"rank {ranks[0].rank}"
    return Section(title=f"Collectives, {whose}", blocks=(table,))


def _ranks(explanation: Explanation) -> Section | None:
    imbalance = explanation.imbalance
    if len(imbalance.ranks) < 2:
        return None
    table = Table(
        columns=(
            Column("Rank"),
            Column("Step", "s"),
            Column("Computing", "s"),
            Column("Communicating", "s"),
            Column("of it waiting", "s"),
            Column("Came last"),
            Column(""),
        ),
        rows=tuple(
            (
                load.rank,
                load.step_seconds,
                load.compute_seconds,
                load.communication_seconds,
                load.communication_wait_seconds,
                Cell(f"{load.num_last} of {imbalance.num_matched}", load.num_last),
                "straggler" if load.is_straggler else "",
            )
            for load in imbalance.ranks
        ),
    )
    longest = percent(imbalance.compute_imbalance)
    return Section(title=f"Ranks; the longest computes {longest} above the mean", blocks=(table,))
