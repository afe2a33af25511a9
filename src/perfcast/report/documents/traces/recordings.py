"""Recordings, trace files and how they fit together."""

from __future__ import annotations

from collections.abc import Sequence

from perfcast.report.document import Column, Document, Fact, Note, Section, Table
from perfcast.report.documents.traces.explained import OVERHEADS
from perfcast.traces.link.report import LinkReport
from perfcast.traces.overheads.profile import OverheadProfile
from perfcast.traces.record.launch import RankRecording, Recording
from perfcast.traces.summary import TraceSummary
from perfcast.units import format_bytes, format_seconds

_FILE_KINDS = {
    "kineto": "timeline",
    "et": "execution trace of one more step",
    "linked": "timeline of that step",
}
#: Steps recorded and not that differ by less say nothing against the machine.
_NOISE = 0.05


def recording_document(recording: Recording) -> Document:
    """Files of each rank, and what recording them cost."""
    count = len(recording.ranks)
    title = f"{count:,} recorded rank{'s' if count > 1 else ''}" if count else "nothing was recorded"
    return Document(title=title, blocks=tuple(_recorded(rank) for rank in recording.ranks))


def _recorded(rank: RankRecording) -> Section:
    files = [Fact(_FILE_KINDS.get(kind, kind), str(path)) for kind, path in sorted(rank.files.items())]
    problem = (Fact("problem", rank.problem, "alarm"),) if rank.problem else ()
    slow_down = (Fact("slow-down", _slow_down(rank)),) if rank.num_steps else ()
    steps = _counted(rank.num_steps, "step") if rank.num_steps else "nothing"
    return Section(
        title=f"rank {rank.rank} of {rank.world_size}: {steps}", facts=(*files, *slow_down, *problem)
    )


def _slow_down(rank: RankRecording) -> str:
    if rank.slow_down is None or rank.step_seconds is None or rank.plain_step_seconds is None:
        return "not measured (no steps without recording)"
    wall = "" if rank.wall_slow_down is None else f", {_longer(rank.wall_slow_down)} by the clock on the wall"
    text = (
        f"{_longer(rank.slow_down)} of processor time "
        f"({format_seconds(rank.plain_step_seconds)} → {format_seconds(rank.step_seconds)} a step){wall}"
    )
    if rank.slow_down < -_NOISE:
        text += "; shorter with recording than without: the machine changed speed, this is no cost"
    if rank.execution_trace_step_seconds is not None:
        text += f"; the step with the execution trace: {format_seconds(rank.execution_trace_step_seconds)}"
    return text


def _longer(share: float) -> str:
    """A change in percent; of what takes several times as long, how many times."""
    return f"{share:+.1%}" if share < 1 else f"{1 + share:.3g} ×"


def files_document(summaries: Sequence[TraceSummary]) -> Document:
    """What files are and hold."""
    return Document(
        title=f"{len(summaries):,} trace file{'s' if len(summaries) > 1 else ''}",
        blocks=tuple(_file(summary) for summary in summaries),
    )


def _file(summary: TraceSummary) -> Section:
    facts = [Fact("platform", f"{summary.platform}: {', '.join(summary.devices) or 'no accelerator'}")]
    if summary.rank is not None:
        facts.append(Fact("rank", f"rank {summary.rank} of {summary.world_size} {summary.backend}".rstrip()))
    elif summary.world_size:
        facts.append(Fact("rank", f"one of {summary.world_size} ranks {summary.backend}".rstrip()))
    if summary.seconds:
        facts.append(Fact("time", _steps(summary)))
    facts.append(Fact("events", _events(summary)))
    if summary.num_storages:
        held = f"{summary.num_storages} storages, {format_bytes(summary.storage_bytes)} in all"
        facts.append(Fact("memory", held))
    if summary.kernel_link_rate is not None:
        before = summary.num_kernels_launched_before
        launched = (
            f"; {before:,} {'was' if before == 1 else 'were'} launched before the recording" if before else ""
        )
        rate = f"{summary.kernel_link_rate:.2%} of kernels have their operator{launched}"
        facts.append(Fact("links", rate))
    return Section(
        title=f"{summary.source}: {summary.kind}, schema {summary.schema or 'unknown'}",
        facts=tuple(facts),
        blocks=tuple(Note(f"warning: {warning}", "alarm") for warning in summary.warnings),
    )


def _steps(summary: TraceSummary) -> str:
    steps = ", ".join(format_seconds(seconds) for seconds in summary.step_seconds[:8])
    more = " …" if len(summary.step_seconds) > 8 else ""
    marked = (
        f"{_counted(len(summary.step_seconds), 'marked step')}: {steps}{more}" if steps else "no marked steps"
    )
    return f"{format_seconds(summary.seconds)}; {marked}"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _events(summary: TraceSummary) -> str:
    return (
        f"{_counted(summary.num_operators, 'operator')} on {_counted(summary.num_threads, 'thread')}, "
        f"{summary.num_kernels:,} kernels and copies, {_counted(summary.num_collectives, 'collective')}, "
        f"{_counted(summary.num_synchronizations, 'synchronisation')}; "
        f"shapes {'recorded' if summary.has_shapes else 'not recorded'}"
    )


def links_document(reports: Sequence[LinkReport]) -> Document:
    """Rates of each rank, and what was left over."""
    return Document(
        title=f"{len(reports):,} linked recording{'s' if len(reports) > 1 else ''}",
        blocks=tuple(_link(report) for report in reports),
    )


def _link(report: LinkReport) -> Section:
    linked = (
        f"{report.num_linked} linked, {report.node_rate:.2%} of {report.num_nodes} nodes, "
        f"{report.row_rate:.2%} of {report.num_rows} events"
    )
    facts = [Fact(f"by {report.how}", linked)]
    if report.num_violations:
        outside = (
            f"{_counted(report.num_violations, 'node')}; {report.num_violations_repaired} after the repair"
        )
        facts.append(Fact("outside their callers", outside))
    if report.kernel_rate is not None:
        facts.append(Fact("kernels", f"{report.kernel_rate:.2%} of kernels have their operator"))
    if report.unlinked_names:
        names = ", ".join(f"{name} ({count})" for name, count in report.unlinked_names[:5])
        facts.append(Fact("not linked", names))
    return Section(
        title=f"rank {report.rank}: {report.execution_trace} and {report.timeline}", facts=tuple(facts)
    )


_OVERHEADS_NOTE = (
    "'trace forecast --overheads' gives each stretch of the host's time the mean of those most like it: of "
    "one operator or call, at one place in its step where that was recorded."
)


def overheads_document(profile: OverheadProfile) -> Document:
    """Each kind's mean and spread over all examples, how many there were and of how many things."""
    rows = []
    for overhead, means in profile.means.items():
        overall = means.get(())
        if overall is not None:
            figures = (overall.seconds, overall.deviation_seconds, overall.count, len(means) - 1)
            rows.append((overhead.value, OVERHEADS[overhead], *figures))
    table = Table(
        columns=(
            Column("", folds=False),
            Column("What"),
            Column("Mean", "s"),
            Column("Deviation", "s"),
            Column("Recorded", "number"),
            Column("Different", "number"),
        ),
        rows=tuple(rows),
    )
    named = ", ".join(filter(None, (profile.host, profile.framework)))
    return Document(
        title=f"Host overheads: {named}" if named else "Host overheads",
        blocks=(table, Note(_OVERHEADS_NOTE)),
    )
