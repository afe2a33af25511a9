"""Recordings, trace files and how they fit together: in the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from perfcast.report.json_format import SCHEMA_VERSION
from perfcast.units import format_bytes, format_seconds
from perfcast.version import perfcast_version

if TYPE_CHECKING:
    from rich.console import Console

    from perfcast.traces.link.report import LinkReport
    from perfcast.traces.record.launch import RankRecording, Recording
    from perfcast.traces.summary import TraceSummary


def recording_to_dict(recording: Recording) -> dict[str, Any]:
    """What was recorded, and the slow-down of each rank."""
    return _header() | {
        "exit_code": recording.exit_code,
        "is_interrupted": recording.is_interrupted,
        "ranks": [
            asdict(rank)
            | {
                "files": {kind: str(path) for kind, path in rank.files.items()},
                "slow_down": rank.slow_down,
                "wall_slow_down": rank.wall_slow_down,
            }
            for rank in recording.ranks
        ],
    }


def summaries_to_dict(summaries: Sequence[TraceSummary]) -> dict[str, Any]:
    """What files are and hold."""
    return _header() | {"files": [asdict(summary) for summary in summaries]}


def links_to_dict(reports: Sequence[LinkReport]) -> dict[str, Any]:
    """How execution traces and timelines fit together."""
    return _header() | {"ranks": [asdict(report) for report in reports]}


def _header() -> dict[str, Any]:
    return {"schema_version": SCHEMA_VERSION, "perfcast_version": perfcast_version()}


def print_recording(recording: Recording, console: Console) -> None:
    """Files of each rank, and what recording them cost."""
    for rank in recording.ranks:
        console.print(f"rank {rank.rank} of {rank.world_size}: {rank.num_steps} steps", markup=False)
        for kind, path in sorted(rank.files.items()):
            console.print(f"  {_FILE_KINDS.get(kind, kind)}: {path}", markup=False)
        console.print(f"  {_slow_down(rank)}", markup=False)
        if rank.problem:
            console.print(f"  problem: {rank.problem}", markup=False)
    if not recording.ranks:
        console.print("nothing was recorded")


_FILE_KINDS = {
    "kineto": "timeline",
    "et": "execution trace of one more step",
    "linked": "timeline of that step",
}


def _slow_down(rank: RankRecording) -> str:
    if rank.slow_down is None or rank.step_seconds is None or rank.plain_step_seconds is None:
        return "slow-down: not measured (no steps without recording)"
    wall = "" if rank.wall_slow_down is None else f", {rank.wall_slow_down:+.1%} by the clock on the wall"
    text = (
        f"slow-down: {rank.slow_down:+.1%} of processor time "
        f"({format_seconds(rank.plain_step_seconds)} → {format_seconds(rank.step_seconds)} a step){wall}"
    )
    if rank.execution_trace_step_seconds is not None:
        text += f"; the step with the execution trace: {format_seconds(rank.execution_trace_step_seconds)}"
    return text


def print_summaries(summaries: Sequence[TraceSummary], console: Console) -> None:
    """One paragraph a file."""
    for summary in summaries:
        console.print(f"{summary.source}: {summary.kind}, schema {summary.schema or 'unknown'}", markup=False)
        for line in _lines(summary):
            console.print(f"  {line}", markup=False)
        for warning in summary.warnings:
            console.print(f"  warning: {warning}", markup=False)


def _lines(summary: TraceSummary) -> list[str]:
    lines = [f"{summary.platform}: {', '.join(summary.devices) or 'no accelerator'}"]
    if summary.rank is not None:
        lines.append(f"rank {summary.rank} of {summary.world_size} {summary.backend}".rstrip())
    elif summary.world_size:
        lines.append(f"one of {summary.world_size} ranks {summary.backend}".rstrip())
    if summary.seconds:
        steps = ", ".join(format_seconds(seconds) for seconds in summary.step_seconds[:8])
        more = " …" if len(summary.step_seconds) > 8 else ""
        marked = f"{len(summary.step_seconds)} marked steps: {steps}{more}" if steps else "no marked steps"
        lines.append(f"{format_seconds(summary.seconds)}; {marked}")
    lines.append(
        f"{summary.num_operators} operators on {summary.num_threads} threads, "
        f"{summary.num_kernels} kernels and copies, {summary.num_collectives} collectives, "
        f"{summary.num_synchronizations} synchronisations; "
        f"shapes {'recorded' if summary.has_shapes else 'not recorded'}"
    )
    if summary.num_storages:
        lines.append(f"{summary.num_storages} storages, {format_bytes(summary.storage_bytes)} in all")
    if summary.kernel_link_rate is not None:
        before = summary.num_kernels_launched_before
        lines.append(
            f"{summary.kernel_link_rate:.2%} of kernels have their operator"
            + (f"; {before} were launched before the recording" if before else "")
        )
    return lines


def print_links(reports: Sequence[LinkReport], console: Console) -> None:
    """Rates of each rank, and what was left over."""
    for report in reports:
        files = f"{report.execution_trace} and {report.timeline}"
        console.print(f"rank {report.rank}: {files}", markup=False)
        console.print(
            f"  by {report.how}: {report.num_linked} linked, "
            f"{report.node_rate:.2%} of {report.num_nodes} nodes, "
            f"{report.row_rate:.2%} of {report.num_rows} events",
            markup=False,
        )
        if report.num_violations:
            console.print(
                f"  {report.num_violations} nodes outside their callers; "
                f"{report.num_violations_repaired} after the repair",
                markup=False,
            )
        if report.kernel_rate is not None:
            console.print(f"  {report.kernel_rate:.2%} of kernels have their operator", markup=False)
        if report.unlinked_names:
            names = ", ".join(f"{name} ({count})" for name, count in report.unlinked_names[:5])
            console.print(f"  not linked: {names}", markup=False)
