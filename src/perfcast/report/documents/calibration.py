"""How well the fitted lines of a calibration fit: of a machine, and of a cluster's collectives."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import cycle

import numpy as np

from perfcast.cost.cluster_profile import AxisProfile, ClusterProfile, CollectiveSample
from perfcast.cost.collective_fit import FittedLine
from perfcast.cost.families import PRODUCT_FAMILIES
from perfcast.cost.linear import Measurement, line_seconds
from perfcast.cost.profile import DeviceProfile, Line
from perfcast.report import palette
from perfcast.report.document import Column, Document, Fact, Note, Section, Table, words
from perfcast.report.figure import Axis, Curve, Figure
from perfcast.report.values import Value
from perfcast.units import format_bytes, format_count, format_seconds

#: Of a curve, places that it is drawn through.
_FITTED_POINTS = 40


def document_of(profile: DeviceProfile, measurements: Sequence[Measurement]) -> Document:
    """What a machine is, how well each line fits, and every family's points and line."""
    peaks = ", ".join(
        f"{label} {format_count(rate, 'FLOP/s')}" for label, rate in profile.peak_flops_per_second.items()
    )
    points: defaultdict[tuple[str, str], list[Measurement]] = defaultdict(list)
    for measurement in measurements:
        points[measurement.features.family, measurement.features.dtype.label].append(measurement)
    sections = tuple(
        Section(
            title=f"{line.family} ({line.dtype})",
            blocks=(
                Note(describe_line(line)),
                line_figure(f"line{index}", line, points[line.family, line.dtype]),
            ),
            only="page",
        )
        for index, line in enumerate(profile.lines)
    )
    notes = (Note("R² and mean absolute error on measurements held out from the fit."), *_doubts(profile))
    return Document(
        title=f"Calibration of {profile.processor}",
        lead=f"{profile.threads}, PyTorch {profile.torch_version}, {profile.measured_at}",
        facts=(
            Fact("Peak", peaks),
            Fact("Copies beyond the cache", format_count(profile.dram_bytes_per_second, "B/s")),
        ),
        blocks=(lines_table(profile), *notes, *sections),
    )


def _doubts(profile: DeviceProfile) -> list[Note]:
    """What is not to be relied on, and what became of it."""
    doubtful = [line for line in profile.lines if line.quality != "good"]
    notes = [
        Note(
            f"{line.family} in {line.dtype} is doubtful: {line.described_quality}",
            severity="alarm",
        )
        for line in doubtful
    ]
    notes += [
        Note(
            f"{each.family} in {each.dtype} is left out: {each.reason}, over {each.count} measurements. It "
            "is priced as if it had not been measured; run the calibration again to measure it again",
            severity="alarm",
        )
        for each in profile.refused
    ]
    return notes


def lines_table(profile: DeviceProfile) -> Table:
    """Every family's line and how well it fits."""
    return Table(
        columns=(
            Column("Family"),
            Column("Type"),
            Column("Points"),
            Column("R²"),
            Column("Error", "share"),
            Column("Latency", "s"),
        ),
        rows=tuple(
            (line.family, line.dtype, line.count, round(line.r_squared, 3), line.mape, line.latency_seconds)
            for line in profile.lines
        ),
    )


def describe_line(line: Line) -> str:
    """The parameters in words."""
    parts = [f"{line.count} measurements", f"latency {format_seconds(line.latency_seconds)}"]
    if line.most_flops > 0 and np.isfinite(line.flops_per_second):
        parts.append(format_count(line.flops_per_second, "FLOP/s"))
    parts.append(f"{format_count(line.bytes_per_second, 'B/s')} up to {format_bytes(line.cache_bytes)}")
    parts.append(f"{format_count(line.bytes_per_second_beyond, 'B/s')} beyond")
    return ", ".join(parts)


def line_figure(name: str, line: Line, measurements: Sequence[Measurement]) -> Figure:
    """Time over work, both logarithmic: points measured, the fitted values joined, the names on hover.

    Work is flops for products and bytes for everything else. The fitted values of products lie on no one
    curve, since the same flops in another shape take another time.
    """
    is_product = line.family in PRODUCT_FAMILIES
    ordered = sorted(measurements, key=lambda m: _work(m, is_product))
    work = tuple(_work(m, is_product) for m in ordered)
    measured = Curve(
        name="measured",
        mode="markers",
        colour=palette.BLUE,
        x=work,
        y=tuple(m.seconds for m in ordered),
        hovers=tuple(f"{m.key}\n{format_seconds(m.seconds)}" for m in ordered),
    )
    fitted = Curve(
        name="fitted",
        mode="markers" if is_product else "lines",
        colour=palette.ORANGE,
        symbols="x-thin-open",
        x=work,
        y=tuple(float(line_seconds(line, m.features)[0]) for m in ordered),
    )
    return Figure(
        name=name,
        series=(measured, fitted),
        height=360,
        legend="above",
        x=Axis(title="work", scale="log", unit="FLOP" if is_product else "B"),
        y=Axis(title="time", scale="log", unit="s"),
    )


def _work(measurement: Measurement, is_product: bool) -> float:
    features = measurement.features
    return float(max(features.executed_flops if is_product else features.memory_traffic_bytes, 1))


def profile_document(profile: ClusterProfile, samples: Sequence[CollectiveSample] = ()) -> Document:
    """What each axis costs at its smallest and largest message, and how well the curves fit.

    Args:
        samples: What was measured, drawn beside the curves.
    """
    rows = []
    for axis in profile.axes:
        for collective, curve in axis.curves.items():
            least, most = map(float, curve.seconds([curve.least_bytes, curve.most_bytes]))
            rate = curve.most_bytes / most
            name = f"{axis.name}={axis.size}"
            rows.append((name, collective, curve.form_name, least, rate, curve.mape, curve.held_out_mape))
    table = Table(
        columns=(
            Column("Axis"),
            Column("Collective"),
            Column("Curve"),
            Column("Smallest", "s"),
            Column("Largest", "B/s"),
            Column("Error", "share"),
            Column("Left out", "share"),
        ),
        rows=tuple(rows),
    )
    sizes = [size for a in profile.axes for c in a.curves.values() for size in (c.least_bytes, c.most_bytes)]
    facts = []
    if sizes:
        facts.append(Fact("Messages", f"from {format_bytes(min(sizes))} to {format_bytes(max(sizes))}"))
    if profile.source:
        facts.append(Fact("Source", profile.source))
    return Document(
        title=f"{profile.name}: {profile.world_size} ranks, {profile.backend}",
        facts=tuple(facts),
        blocks=(table, *_axis_lines(profile), *_curve_doubts(profile), *_axes(profile, samples)),
    )


def _axis_lines(profile: ClusterProfile) -> list[Section]:
    """Latency and bandwidth of each axis in two numbers, with how well a line fits."""
    rows = [
        (
            f"{axis.name}={axis.size}",
            collective,
            curve.line.latency_seconds,
            curve.line.bytes_per_second if math.isfinite(curve.line.bytes_per_second) else None,
            round(curve.line.r_squared, 3),
            curve.line.mape,
        )
        for axis in profile.axes
        for collective, curve in axis.curves.items()
        if curve.line is not None
    ]
    if not rows:
        return []
    lead = (
        "time = latency + bytes / bandwidth, of least relative error through all sizes. Forecasts take the "
        "curves above, whose error is that at the sizes they were fitted on, and at sizes left out."
    )
    return [Section(title="Lines", lead=lead, blocks=(axis_lines_table(rows),))]


def axis_lines_table(rows: Sequence[tuple[Value, ...]]) -> Table:
    """Lines of a mesh: axis, collective, seconds, bytes per second, R² and relative error of each."""
    columns = (
        Column("Axis"),
        Column("Collective"),
        Column("Latency", "s"),
        Column("Bandwidth", "B/s"),
        Column("R²"),
        Column("Error", "share"),
    )
    return Table(columns=columns, rows=tuple(rows))


def _curve_doubts(profile: ClusterProfile) -> list[Note]:
    notes = [
        Note(f"{words(name)} along {axis.name} is doubtful: {curve.described_quality}", severity="alarm")
        for axis in profile.axes
        for name, curve in axis.curves.items()
        if curve.quality != "good"
    ]
    notes += [
        Note(
            f"{words(each.collective)} along {each.axis} is left out: {each.reason}. Run the profile again "
            "to measure it again",
            severity="alarm",
        )
        for each in profile.refused
    ]
    return notes


def _axes(profile: ClusterProfile, samples: Sequence[CollectiveSample]) -> list[Section]:
    return [
        Section(title=f"Axis {axis.name}", blocks=(axis_figure(axis, samples, f"axis-{at}"),), only="page")
        for at, axis in enumerate(profile.axes)
        if axis.curves
    ]


def axis_figure(
    axis: AxisProfile, samples: Sequence[CollectiveSample], name: str, *, with_curves: bool = True
) -> Figure:
    """Time over message size along one axis: what was measured, each collective's fitted curve and its line.

    The line, latency + bytes / bandwidth, is dashed.

    Args:
        with_curves: Else lines alone, which then stand for their collectives.
    """
    series: list[Curve] = []
    for (collective, curve), colour in zip(axis.curves.items(), cycle(palette.TURNS), strict=False):
        sizes = np.geomspace(curve.least_bytes, curve.most_bytes, _FITTED_POINTS)
        if with_curves or curve.line is None:
            fitted = list(zip(sizes.tolist(), map(float, curve.seconds(sizes)), strict=True))
            series.append(_collective_curve(collective, colour, fitted, is_measured=False))
        else:
            points = list(zip(sizes.tolist(), curve.line.seconds(sizes).tolist(), strict=True))
            series.append(_collective_curve(collective, colour, points, is_measured=False))
        if with_curves and curve.line is not None:
            is_first = all(one.dash == "solid" for one in series)
            series.append(_line_curve(collective, colour, curve.line, sizes.tolist(), in_legend=is_first))
        measured = [
            (float(s.size_bytes), s.seconds)
            for s in samples
            if (s.axis, s.axis_size, s.collective) == (axis.name, axis.size, collective)
        ]
        if measured:
            series.append(_collective_curve(collective, colour, measured, is_measured=True))
    return Figure(
        name=name,
        series=tuple(series),
        height=360,
        legend="above",
        x=Axis(title="message", scale="log", unit="B"),
        y=Axis(title=f"time among {axis.size} ranks", scale="log", unit="s"),
    )


def _line_curve(
    collective: str, colour: str, line: FittedLine, sizes: Sequence[float], *, in_legend: bool
) -> Curve:
    """A line, dashed; pointing at it says its latency and bandwidth."""
    said = (
        f"{words(collective)}, line\n{format_seconds(line.latency_seconds)} + bytes / "
        f"{format_count(line.bytes_per_second, 'B/s')}"
    )
    return Curve(
        name="latency + bytes / bandwidth" if in_legend else f"{words(collective)}, line",
        dash="dash",
        width=1.0,
        in_legend=in_legend,
        colour=colour,
        x=tuple(sizes),
        y=tuple(line.seconds(np.array(sizes)).tolist()),
        hovers=(said,) * len(sizes),
    )


def _collective_curve(
    collective: str, colour: str, points: Sequence[tuple[float, float]], *, is_measured: bool
) -> Curve:
    how = "measured" if is_measured else "fitted"
    return Curve(
        name=f"{words(collective)}, {how}" if is_measured else words(collective),
        mode="markers" if is_measured else "lines",
        in_legend=not is_measured,
        colour=colour,
        sizes=5,
        x=tuple(size for size, _ in points),
        y=tuple(seconds for _, seconds in points),
        hovers=tuple(
            f"{words(collective)}, {how}\n{format_bytes(size)}: {format_seconds(seconds)}"
            for size, seconds in points
        ),
    )
