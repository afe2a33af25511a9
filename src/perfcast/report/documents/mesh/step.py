"""Steps on a mesh of this machine: forecast by fitted lines, measured beside it, and the parts of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import cycle

from perfcast.published.mesh_cost_model.axes import MeshAxis
from perfcast.published.mesh_cost_model.here import MeshStepAnswer, StepOnMesh
from perfcast.published.mesh_cost_model.step import MeshCost
from perfcast.report import palette
from perfcast.report.answers import downsample_indices
from perfcast.report.document import Block, Cell, Column, Document, Fact, Note, Section, Table
from perfcast.report.documents.calibration import axis_figure, axis_lines_table, lines_table
from perfcast.report.documents.mesh import discovered
from perfcast.report.figure import Axis, Curve, Figure
from perfcast.report.values import Value, format_value
from perfcast.units import format_bytes, format_seconds

#: Rows of operators that a terminal shows, and points of a timeline.
_MOST_OPERATORS, _MOST_POINTS = 6, 800
#: A rank that waits longer for a processor, as a share of its step, does not run on a quiet machine.
_DISTURBED = 0.05
_MODES = {"train": "Training steps", "prefill": "Prefills", "decode": "Decode steps"}
_INSIDE = {True: "yes", False: "no", None: "–"}


def document_of(answer: MeshStepAnswer) -> Document:
    """Forecast beside measured, the line of each axis, and the parts of every step."""
    request, profile = answer.request, answer.profile
    ranks = "1 rank" if request.num_ranks == 1 else f"{request.num_ranks} ranks"
    backend = "NCCL" if request.device == "cuda" else "gloo"
    axes = " · ".join(f"{axis.name}={axis.size}" for axis in answer.mesh.axes)
    facts = [Fact("Mesh", f"{axes} ({'discovered' if answer.discovered else 'as given'})")] if axes else []
    if answer.errors:
        off = sum(map(abs, answer.errors)) / len(answer.errors)
        said = f"{format_value(off, 'share')} on average over {len(answer.errors)} steps measured here"
        facts.append(Fact("Error", said))
    facts.append(Fact("Measurements", f"kept in {answer.folder}"))
    return Document(
        title=f"{_MODES[request.mode]} on {ranks} of this machine",
        lead=f"{profile.processor}, {_threads(answer.threads)} a rank, {backend}, "
        f"PyTorch {profile.torch_version}",
        facts=tuple(facts),
        blocks=(
            _steps(answer.steps), *_waits(answer), _parts(answer.steps), *_notes(answer),
            *_axes(answer),
            *(block for place, step in enumerate(answer.steps) for block in _operators(place, step)),
            Section(title="Fitted families", blocks=(lines_table(profile),), only="page"),
        ),
        assumptions=(
            "kernels were measured while the other ranks ran kernels too; rank 0 stands for all ranks",
            "a step is its operators and then its collectives; where the program overlaps them, the interval "
            "begins at the longer of both",
            "latency + bytes / bandwidth of each axis, whatever curve its times have",
        ),
    )  # fmt: skip


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def _steps(steps: Sequence[StepOnMesh]) -> Table:
    columns = (
        Column("Model"),
        Column("Forecast", "s"),
        Column("Interval"),
        Column("Measured", "s"),
        Column("Error"),
        Column("Inside"),
    )
    return Table(columns=columns, rows=tuple(_row(step) for step in steps))


def _row(step: StepOnMesh) -> tuple[Value | Cell, ...]:
    cost, measured = step.cost, step.measured
    ends = None if cost is None else (cost.step_seconds_low, cost.step_seconds_high)
    return (
        _short(step.model),
        None if cost is None else cost.step_seconds,
        None if ends is None else " – ".join(map(format_seconds, ends)),
        None if measured is None else measured.time.seconds,
        _signed(step.error),
        _INSIDE[step.is_inside],
    )


def _short(model: str) -> str:
    """The last part of a file's name."""
    return model.rpartition("/")[2]


def _waits(answer: MeshStepAnswer) -> list[Section]:
    """Steps without the time in which a rank waited for a processor, where ranks did.

    Of ranks that share cores nothing: their waits for each other belong to the step.
    """
    steps = answer.steps if answer.crowding == 1 else ()
    known = [step for step in steps if step.measured is not None and step.measured.waited_share is not None]
    if not any((step.measured.waited_share or 0.0) > _DISTURBED for step in known if step.measured):
        return []
    rows = tuple(
        (
            _short(step.model), step.measured.waited_share, step.measured.quiet_seconds,
            _signed(step.quiet_error), _INSIDE[step.is_quiet_inside],
        )
        for step in known
        if step.measured is not None
    )  # fmt: skip
    columns = (
        Column("Model"),
        Column("Waits", "share"),
        Column("Without them", "s"),
        Column("Error"),
        Column("Inside"),
    )
    lead = (
        "Ranks were ready and waited for a processor: something else ran on this machine, or there are more "
        "ranks and threads than cores. For the step itself measure again when it is quiet (--restart)."
    )
    return [Section(title="Disturbed", lead=lead, blocks=(Table(columns=columns, rows=rows),))]


def _signed(share: float | None) -> Cell | None:
    return None if share is None else Cell(f"{100 * share:+.1f} %", share)


def _parts(steps: Sequence[StepOnMesh]) -> Section:
    columns = (
        Column("Model"),
        Column("Operators", "s"),
        Column("Communication", "s", short="Comm."),
        Column("Peak memory"),
        Column("Largest operator"),
    )
    rows = tuple(_part(step, step.cost) for step in steps if step.cost is not None)
    return Section(title="What steps consist of", blocks=(Table(columns=columns, rows=rows),))


def _part(step: StepOnMesh, cost: MeshCost) -> tuple[Value | Cell, ...]:
    largest = cost.memory[cost.largest_operator].whole_bytes if cost.memory else 0
    return (
        _short(step.model),
        cost.operator_seconds,
        cost.communication_seconds,
        format_bytes(cost.peak_memory_bytes),
        format_bytes(largest),
    )


def _notes(answer: MeshStepAnswer) -> list[Note]:
    notes = [Note(f"{step.model}: {step.reason}", severity="alarm") for step in answer.steps if step.reason]
    if answer.crowding > 1:
        notes.append(
            Note(
                f"{answer.crowding:.3g} threads share each core: operators are taken to last so many times "
                "as long as measured, but for the low end of the interval. What else runs here lengthens "
                "steps too."
            )
        )
    doubtful = [line for line in answer.profile.lines if line.quality != "good"]
    if doubtful or answer.profile.refused:
        notes.append(
            Note(
                f"Of {len(answer.profile.lines)} families of kernels {len(doubtful)} have doubtful lines and "
                f"{len(answer.profile.refused)} more none; intervals are wider for it."
            )
        )
    return notes


# ---- the mesh ----------------------------------------------------------------------------------


def _axes(answer: MeshStepAnswer) -> list[Section]:
    """Each axis' line, with its points where they were measured."""
    rows = [
        (
            f"{axis.name}={axis.size}", collective, line.latency_seconds,
            line.bytes_per_second if math.isfinite(line.bytes_per_second) else None,
            None if line.r_squared is None else round(line.r_squared, 3), line.mape,
        )
        for axis in answer.mesh.axes
        for collective, line in axis.lines.items()
    ]  # fmt: skip
    if not rows:
        return []
    sections = [Section(title="Lines of the mesh", blocks=(axis_lines_table(rows),))]
    if answer.cluster is not None:
        drawn = [axis for axis in answer.cluster.axes if axis.curves]
        figures = [
            axis_figure(axis, answer.samples, f"axis-{place}", with_curves=False)
            for place, axis in enumerate(drawn)
        ]
    else:
        figures = [_line_figure(place, axis) for place, axis in enumerate(answer.mesh.axes)]
    for axis_name, figure in zip([axis.name for axis in answer.mesh.axes], figures, strict=False):
        sections.append(Section(title=f"Axis {axis_name}", blocks=(figure,), only="page"))
    if answer.discovered is not None:
        found = discovered.document_of(answer.discovered, answer.pairs)
        sections.append(Section(title=found.title, lead=found.lead, facts=found.facts, blocks=found.blocks))
    return sections


def _line_figure(place: int, axis: MeshAxis) -> Figure:
    """The lines of an axis of which pairs were measured."""
    sizes = [float(2**power) for power in range(10, 27)]
    return Figure(
        name=f"axis-{place}",
        series=tuple(
            Curve(name=name, x=tuple(sizes), y=tuple(line.seconds(size) for size in sizes), colour=colour)
            for (name, line), colour in zip(axis.lines.items(), cycle(palette.TURNS), strict=False)
        ),
        height=360,
        legend="above",
        x=Axis(title="message", scale="log", unit="B"),
        y=Axis(title=f"time among {axis.size} ranks", scale="log", unit="s"),
    )


# ---- operators ---------------------------------------------------------------------------------


def _operators(place: int, step: StepOnMesh) -> list[Block]:
    """Time and memory of operators by name, and what is alive over the step."""
    cost = step.cost
    if cost is None:
        return []
    columns = (
        Column("Operator"),
        Column("Phase"),
        Column("Runs"),
        Column("Time", "s"),
        Column("Bound by"),
        Column("Memory"),
        Column("Kept"),
    )
    rows = tuple(
        (
            each.name, each.phase, each.runs, each.seconds, each.bound_by,
            Cell(format_bytes(each.whole_bytes), each.whole_bytes),
            Cell(format_bytes(each.kept_bytes), each.kept_bytes),
        )
        for each in cost.operators
    )  # fmt: skip
    table = Table(columns=columns, rows=rows, things="operators", most_rows=_MOST_OPERATORS)
    lead = (
        "Memory is of the largest run: inputs, outputs and temporaries. Kept is what all runs leave for the "
        "backward."
    )
    title = f"Operators of {_short(step.model)}"
    return [Section(title=title, lead=lead, blocks=(table, _memory_figure(place, cost)))]


def _peak(cost: MeshCost) -> int:
    return max(range(len(cost.memory)), key=lambda index: cost.memory[index].live_bytes)


def _memory_figure(place: int, cost: MeshCost) -> Figure:
    """Bytes alive while each operator runs, and those that it touches itself."""
    kept = downsample_indices([one.live_bytes for one in cost.memory], _MOST_POINTS, _peak(cost))
    x = tuple(float(index) for index in kept)
    alive = Curve(
        name="alive",
        x=x,
        y=tuple(float(cost.memory[index].live_bytes) for index in kept),
        colour=palette.BLUE,
        fills="to_zero",
        is_step=True,
    )
    own = Curve(
        name="of the operator itself",
        x=x,
        y=tuple(float(cost.memory[index].whole_bytes) for index in kept),
        colour=palette.ORANGE,
        is_step=True,
        width=1.0,
    )
    return Figure(
        name=f"memory-{place}",
        series=(alive, own),
        height=300,
        legend="above",
        x=Axis(title="operators, in program order"),
        y=Axis(title="memory", unit="B", from_zero=True),
    )
