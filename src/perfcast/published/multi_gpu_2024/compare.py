"""Lin et al.'s printed errors beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perfcast.catalogs.devices import load_device
from perfcast.errors import InputError
from perfcast.files.reading import read_toml
from perfcast.published.comparison import Comparison, Figure, print_comparison
from perfcast.published.multi_gpu_2024.iteration import predict_iteration
from perfcast.published.multi_gpu_2024.predictor import NAME
from perfcast.published.multi_gpu_2024.recorded import forecast_recorded
from perfcast.traces.kineto.reader import read_ranks
from perfcast.traces.overheads.profile import fit_overheads
from perfcast.traces.overheads.trimmed import fit_trimmed_overheads
from perfcast.traces.timeline.program import Overhead, RankProgram
from perfcast.traces.timeline.ranks import build_ranks
from perfcast.units import MILLI

MEASURED = Path(__file__).with_name("measured.toml")
#: Eight ranks of a DLRM on V100s, one step (facebookresearch/param).
RECORDED, DEVICE, NUM_FITTED = "dlrm_kineto.tar.gz", "v100-sxm2-32gb", 4
_OVERHEADS = {
    Overhead.BETWEEN: "between operators (T1)",
    Overhead.BEFORE: "before the first call (T2)",
    Overhead.AFTER: "after the last (T3)",
    Overhead.CALL: "calls (T4)",
    Overhead.INSIDE: "within operators (T5)",
}
_NOT_TRAINED = (
    "The study's nets of batch norm, transpose and lower triangle are not trained: no public table has their "
    "kernels with sizes on any device (recordings have 42 batch norms of a V100 and an A100 without sizes)."
)
#: Of a step, printed.
_RECOMMENDATION_ERROR = 5.21


def compare(data: Path | None = None) -> Comparison:
    """Errors of kernels, steps and the choice of sharding; with ``data`` also of the public recording.

    Raises:
        InputError: The folder has no such recording.
    """
    recorded, notes = ((), ()) if data is None else _recorded_figures(data)
    return Comparison(
        system="multi_gpu_2024",
        paper='Lin et al., "Towards Universal Performance Modeling for Machine Learning Training on '
        'Multi-GPU Platforms", IEEE TPDS 2024; kernels: the same, HiPC 2022',
        protocol="The paper's recordings (two kinds of GPUs) are not public: ours are of other machines. "
        "Rows of kernels and steps are errors, |forecast - measured| / measured; those of sharding are "
        "shares of tasks that were named right.",
        figures=(*measured_figures(), *recorded),
        reason="" if data else "Steps of a public recording of eight V100s are compared with --data DIR.",
        notes=(*notes, _NOT_TRAINED),
    )


def measured_figures() -> tuple[Figure, ...]:
    """Figures that a command measured and this package keeps."""
    rows = read_toml(MEASURED, what="the measured errors")
    return tuple(
        Figure(
            what=row["what"],
            published=row.get("published"),
            ours=row["ours"],
            unit="%",
            note=f"{row['note']} ({row['command']})",
            digits=3,
        )
        for row in rows.values()
    )


def _recorded_figures(data: Path) -> tuple[tuple[Figure, ...], tuple[str, ...]]:
    """The job's step from overheads of half its ranks, and what of them the published trimming drops.

    Kernels as recorded, then as modelled; overheads as published, then by means that keep their sums.
    """
    place = next(
        (p for p in (data / "traces/param" / RECORDED, data / "param" / RECORDED) if p.is_file()), None
    )
    if place is None:
        raise InputError(f"{data}: holds neither traces/param/{RECORDED} nor param/{RECORDED}")
    traces = read_ranks([place])
    programs = build_ranks(traces)
    seen, asked = programs[:NUM_FITTED], traces[NUM_FITTED:]
    measured = max(program.measured_seconds[0] for program in programs[NUM_FITTED:])
    named = "recommendation, a step of ranks 4-7 of eight V100s"
    plain = predict_iteration(build_ranks(asked), seen).step_seconds
    note = "overheads of ranks 0-3, trimmed as published; kernels and collectives as recorded"
    summed = predict_iteration(build_ranks(asked), seen, fit=fit_overheads).step_seconds
    keeping = "the same with overheads whose means keep their sums, as perfcast trace forecast has them"
    figures = [
        _step_figure(named, plain, measured, note),
        _step_figure(f"{named}, overheads not trimmed", summed, measured, keeping),
    ]
    notes = (_say_dropped(programs[NUM_FITTED:], seen),)
    try:
        step, kernels = forecast_recorded(asked, load_device(DEVICE), overheads_of=seen)
    except InputError:  # the kernel models are not trained here
        return tuple(figures), notes
    share = min(one.modelled_share for one in kernels)
    note = f"as published, with {100 * share:.0f} % of the kernels' time by {NAME}"
    return (*figures, _step_figure(f"{named}, modelled kernels", step.step_seconds, measured, note)), notes


def dropped_seconds(
    programs: Sequence[RankProgram], seen: Sequence[RankProgram]
) -> dict[Overhead, tuple[float, float]]:
    """Of each overhead of a rank, the mean: seconds as recorded, and by the published means of ``seen``."""
    profile = fit_trimmed_overheads(seen)
    found = dict.fromkeys(Overhead, (0.0, 0.0))
    for program in programs:
        for piece in program.pieces:
            if piece.chain == 0:
                recorded, trimmed = found[piece.overhead]
                found[piece.overhead] = recorded + piece.seconds, trimmed + profile.seconds(piece)
    return {name: (a / len(programs), b / len(programs)) for name, (a, b) in found.items()}


def _say_dropped(programs: Sequence[RankProgram], seen: Sequence[RankProgram]) -> str:
    parts = sorted(dropped_seconds(programs, seen).items(), key=lambda one: one[1][1] - one[1][0])
    said = ", ".join(
        f"{_OVERHEADS[name]} {recorded / MILLI:.1f} ms recorded, {trimmed / MILLI:.1f} by trimmed means"
        for name, (recorded, trimmed) in parts
    )
    return f"Why the step comes out too short: host time of a rank, {said}."


def _step_figure(what: str, forecast: float, measured: float, note: str) -> Figure:
    error = 100 * abs(forecast / measured - 1)
    return Figure(what=what, published=_RECOMMENDATION_ERROR, ours=error, unit="%", note=note, digits=3)


if __name__ == "__main__":
    print_comparison(compare)
