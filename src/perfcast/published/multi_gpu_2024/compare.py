"""Lin et al.'s printed errors beside ours."""

from __future__ import annotations

from pathlib import Path

from perfcast.catalogs.devices import load_device
from perfcast.errors import InputError
from perfcast.files.reading import read_toml
from perfcast.published.comparison import Comparison, Figure, print_comparison
from perfcast.published.multi_gpu_2024.iteration import predict_iteration
from perfcast.published.multi_gpu_2024.predictor import NAME
from perfcast.published.multi_gpu_2024.recorded import forecast_recorded
from perfcast.traces.kineto.reader import read_ranks
from perfcast.traces.timeline.ranks import build_ranks

MEASURED = Path(__file__).with_name("measured.toml")
#: Eight ranks of a DLRM on V100s, one step (facebookresearch/param).
RECORDED, DEVICE, NUM_FITTED = "dlrm_kineto.tar.gz", "v100-sxm2-32gb", 4
#: Of a step, printed.
_RECOMMENDATION_ERROR = 5.21


def compare(data: Path | None = None) -> Comparison:
    """Errors of kernels, steps and the choice of sharding; with ``data`` also of the public recording.

    Raises:
        InputError: The folder has no such recording.
    """
    recorded = () if data is None else _recorded_figures(data)
    return Comparison(
        system="multi_gpu_2024",
        paper='Lin et al., "Towards Universal Performance Modeling for Machine Learning Training on '
        'Multi-GPU Platforms", IEEE TPDS 2024; kernels: the same, HiPC 2022',
        protocol="The paper's recordings (two kinds of GPUs) are not public: ours are of other machines. "
        "Errors are |forecast - measured| / measured.",
        figures=(*measured_figures(), *recorded),
        reason="" if data else "Steps of a public recording of eight V100s are compared with --data DIR.",
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


def _recorded_figures(data: Path) -> tuple[Figure, ...]:
    """The job's step from overheads of half its ranks: kernels as recorded, then as modelled."""
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
    figures = [_step_figure(named, plain, measured, note)]
    try:
        step, kernels = forecast_recorded(asked, load_device(DEVICE), overheads_of=seen)
    except InputError:  # the kernel models are not trained here
        return tuple(figures)
    share = min(one.modelled_share for one in kernels)
    note = f"the same with {100 * share:.0f} % of the kernels' time by {NAME}"
    return (*figures, _step_figure(f"{named}, modelled kernels", step.step_seconds, measured, note))


def _step_figure(what: str, forecast: float, measured: float, note: str) -> Figure:
    error = 100 * abs(forecast / measured - 1)
    return Figure(what=what, published=_RECOMMENDATION_ERROR, ours=error, unit="%", note=note, digits=3)


if __name__ == "__main__":
    print_comparison(compare)
