"""``validate traces``: models recorded here at one batch, forecast at others, and really run at those.

Each model is recorded as 'perfcast trace record' does, in processes of its own (one for each rank), and run
for real in others, at half, twice and four times the batch; one thread each. All take short turns and are
stated for one speed of the machine. 'one recording' scales recorded operators by their work; 'two recordings'
puts each on a line through a second recording at three times the batch. Neither sees a real run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfcast.errors import UnknownNameError
from perfcast.evidence.validate.result import SuiteResult
from perfcast.evidence.validate.row import Row
from perfcast.evidence.validate.sampling import DEFAULT_MAX_ROWS
from perfcast.evidence.validate.traces.models import TRACE_MODELS, TraceModel
from perfcast.evidence.validate.traces.parts import (
    NUM_TURNS,
    RECORDED,
    RUN,
    SuitePart,
    measure,
    parts_of,
    read_times,
)
from perfcast.evidence.validate.traces.speeds import StatedStep, stated_steps
from perfcast.traces.forecast.from_traces import forecast_from_traces
from perfcast.traces.forecast.request import SecondRecording, TraceForecastRequest
from perfcast.traces.kineto.borrowed_inputs import read_ranks_with_inputs
from perfcast.traces.scaling.recorded.read import calls_beside

PREDICTORS = ("one recording", "two recordings")
#: Added to each error before its logarithm, so that one exact forecast does not decide a geometric mean.
GMAE_FLOOR = 4e-4

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TraceScore:
    """Errors of one predictor on one model, or ('all') on all of them.

    Attributes:
        gmae: exp(mean ln(|error| + 4e-4)).
        mape: Mean |error|.
        errors: Signed, by multiple of the recorded batch; of 'all' empty.
    """

    predictor: str
    model: str
    num_cases: int
    gmae: float
    mape: float
    errors: tuple[tuple[float, float], ...]


def validate_traces(
    folder: Path,
    predictors: Sequence[str] = (),
    *,
    max_rows: int = DEFAULT_MAX_ROWS,
    models: Sequence[TraceModel] = TRACE_MODELS,
    say: Say = lambda text: None,
) -> tuple[SuiteResult, tuple[TraceScore, ...]]:
    """Record and run what ``folder`` lacks, forecast, and compare.

    Args:
        folder: Of finished parts; each appears when it is whole, so that an interrupted call goes on.
        predictors: Of ``PREDICTORS``; all by default.
        models: Those not reported are left out.

    Raises:
        UnknownNameError: Unknown predictors.
        TraceError: A program failed.
    """
    names = tuple(predictors) or PREDICTORS
    for name in names:
        if name not in PREDICTORS:
            raise UnknownNameError("predictor", name, PREDICTORS, f"Known: {', '.join(PREDICTORS)}.")
    rows: list[Row] = []
    for model in models:
        if model.is_reported and len(rows) < max_rows:
            measure(model, folder, say)
            rows += [row for name in names for row in compare_model(model, folder, name)]
    result = SuiteResult("traces", _protocol(), tuple(rows[:max_rows]))
    return result, score(result.rows)


def compare_model(model: TraceModel, folder: Path, predictor: str) -> Iterator[Row]:
    """Forecasts of one model's other batches beside its real runs."""
    parts = parts_of(model, folder / model.name)
    steps = stated_steps({part.name: read_times(part) for part in parts}, model.num_ranks)
    first, second = (part for part in parts if part.is_recording)
    recorded = read_recording(first, steps[first.name])
    again = next(p for p in parts if not p.is_recording and p.batch_size == first.batch_size)
    for part in parts:
        if part.is_recording or part is again:
            continue
        request = TraceForecastRequest(
            batch=(first.batch_size, part.batch_size),
            plain_seconds=recorded.plain_seconds,
            calls=calls_beside(timelines_of(first), recorded.traces),
            second=read_recording(second, steps[second.name]) if predictor == PREDICTORS[1] else None,
        )
        found = forecast_from_traces(recorded.traces, request)
        measured = steps[part.name]
        yield Row(
            suite="traces",
            table="trace_models",
            row=f"{model.name} {part.batch_size}",
            device="cpu",
            catalog_device="cpu",
            operation="step",
            dtype="fp32",
            framework="pytorch",
            mode="train",
            columns={
                "model": model.name,
                "kind": model.kind,
                "num_ranks": model.num_ranks,
                "recorded_batch_size": first.batch_size,
                "batch_size": part.batch_size,
                "factor": part.batch_size / model.batch_size,
                "raw_seconds": measured.raw_seconds,
                "later_over_earlier": measured.later_over_earlier,
                "other_process_over_recorded": steps[again.name].seconds / steps[first.name].seconds,
            },
            predictor=predictor,
            predicted_seconds=found.step_seconds,
            predicted_seconds_low=found.step_seconds_low,
            predicted_seconds_high=found.step_seconds_high,
            measured_seconds=measured.seconds,
            provenance="extrapolated",
        )


def timelines_of(part: SuitePart) -> list[Path]:
    """The timelines of a part's ranks."""
    return sorted(part.folder.glob("rank*.kineto.json.gz"))


def read_recording(part: SuitePart, plain: StatedStep) -> SecondRecording:
    """A recording's ranks with what their steps took without it, at the speed at which all are stated."""
    traces = read_ranks_with_inputs(timelines_of(part))
    return SecondRecording(traces, part.batch_size, {trace.rank: plain.seconds for trace in traces})


def score(rows: Iterable[Row]) -> tuple[TraceScore, ...]:
    """Errors by predictor and model, and of each predictor over all."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        for model in (str(row.columns["model"]), "all"):
            groups.setdefault((row.predictor, model), []).append(row)
    return tuple(_score(*key, mine) for key, mine in groups.items())


def _score(predictor: str, model: str, rows: Sequence[Row]) -> TraceScore:
    errors = [row.relative_error or 0.0 for row in rows]
    logs = [math.log(abs(error) + GMAE_FLOOR) for error in errors]
    factors = [float(row.columns["factor"]) for row in rows]
    return TraceScore(
        predictor,
        model,
        len(rows),
        math.exp(sum(logs) / len(logs)),
        sum(map(abs, errors)) / len(errors),
        () if model == "all" else tuple(zip(factors, errors, strict=True)),
    )


def _protocol() -> dict[str, Any]:
    multiples = ", ".join(f"{factor:g}" for factor in RUN)
    return {
        "recorded": "by 'perfcast trace record' at the model's batch, and for 'two recordings' at "
        f"{RECORDED[1]:g} times it; a process for each rank, one thread each; five steps have a timeline",
        "measured": f"at {multiples} times the batch without a profiler, each in other processes; all of a "
        f"model's programs run at once and take {NUM_TURNS} turns of about 0.15 s, or one step; median "
        "step by the processor's clock; of two ranks the lower quartile of the slower one's on the wall",
        "speed": "each step is stated for the median of three probes beside it (arithmetic, memory, "
        "lookup), by slopes fitted within each program's steps",
        "memory": "glibc keeps freed memory in all programs (MALLOC_MMAP_MAX_=0, no trimming)",
        "forecast": "recorded operators scaled by their work, collectives by their bytes, all ranks played "
        "together; what recording costs is taken out by the steps that it timed without",
        "developed_on": ", ".join(model.name for model in TRACE_MODELS if not model.is_reported),
        "left_out": "all models of this suite: nothing was fitted or chosen on their real runs",
        "geometric_mean": f"exp(mean ln(|error| + {GMAE_FLOOR:g}))",
    }
