"""``validate serving``: measured points of deployments under a closed loop, and forecasts of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from perfcast.core.forecast.serving import ServingMethod
from perfcast.core.serving.load import ClosedLoad
from perfcast.core.words import known_word
from perfcast.errors import InputError
from perfcast.evidence.validate.protocol import describe_sampling
from perfcast.evidence.validate.result import TableResult
from perfcast.evidence.validate.row import Row
from perfcast.evidence.validate.runs.lines import spelled
from perfcast.evidence.validate.sampling import DEFAULT_MAX_ROWS, sample
from perfcast.evidence.validate.serving.cases import MEASURED, TABLE, ServingCase, read_cases
from perfcast.evidence.validate.serving.forecast import PREDICTORS, ServedTimes, forecast_point, is_time
from perfcast.evidence.validate.serving.ranking import RankedPoint, describe_ranks, tokens_per_second
from perfcast.evidence.validate.serving.setups import ServingSetup
from perfcast.evidence.validate.summary import score_rows
from perfcast.prediction.serving.engines import StepTables

GROUPS = (
    "operation",
    "half, operation",
    "half, operation, framework",
    "half, operation, device",
    "half, operation, model",
    "half, operation, mode",
    "half, operation, clients",
    "operation, framework",
    "operation, device",
    "operation, model",
    "operation, mode",
    "operation, dtype",
    "operation, lengths",
    "operation, clients",
    "operation, skipped",
    "framework, device, model, dtype, mode, operation",
)
PROTOCOL = (
    "each point is played as the benchmark ran it: all clients begin at once, ten requests of each, lengths "
    "between 80 and 100 % of the stated ones, means over all requests; configuration columns alone are read; "
    "workers, attention data parallelism and drafts of deployments in two pools, which the table does not "
    "state, are those of the published launch recipe for that load, and where several fit the interval holds "
    "all"
)
FITTED = (
    "configurations (model, system, framework, precision, mode, degrees) are cut into two halves by a hash: "
    "constants of serving were fitted on 'fitted' alone, 'reported' is what they are worth"
)
#: Words of a configuration that points have in common whose step times are kept: model to precision.
_SHARED_WORDS = 4
_CLIENTS = ((1, 8), (9, 64), (65, 512), (513, 10**9))


def validate_serving(
    places: Sequence[Path],
    predictors: Sequence[str] = (),
    *,
    max_rows: int = DEFAULT_MAX_ROWS,
    say: Callable[[str], None] = lambda text: None,
    track: Callable[[list[Any], str], Iterable[Any]] = lambda items, words: items,
) -> TableResult:
    """Forecast every point by every predictor.

    Args:
        places: Folders of tables, or single tables.
        predictors: Of ``PREDICTORS``; all by default.
        max_rows: Of points, drawn evenly over model, system, framework, precision and mode.

    Raises:
        InputError: No table; unknown predictors.
    """
    names = tuple(known_word("predictor", name, PREDICTORS) for name in predictors) or PREDICTORS
    every = read_cases(places)
    if not every:
        raise InputError(f"no {TABLE} in {', '.join(map(str, places))}")
    taken = sample(every, max_rows, lambda case: f"{TABLE} {case.row}", _stratum)
    words = describe_sampling(
        len(every),
        len(taken),
        "points",
        "evenly over model, system, framework, precision and mode, by a hash",
    )
    say(words)
    rows, points = _score(taken, names, track)
    return TableResult(
        "serving",
        {"forecast": PROTOCOL, "fitted_on": FITTED, "sampling": words},
        (),
        GROUPS,
        more_rows=tuple(rows),
        more_scores=tuple(score_rows(rows, _labels)),
        more_summary=tuple(_rank_entries(points)),
    )


def _stratum(case: ServingCase) -> tuple[str, ...]:
    named = ("model_path", "system", "backend", "precision", "mode")
    return tuple(str(case.columns.get(name)) for name in named)


def _score(
    cases: Sequence[ServingCase],
    names: Sequence[ServingMethod],
    track: Callable[[list[Any], str], Iterable[Any]],
) -> tuple[list[Row], dict[tuple[str, str], list[RankedPoint]]]:
    """Rows by line, points by predictor and half; step times built once a configuration."""
    ordered = sorted(cases, key=_configuration)
    rows: list[tuple[int, Row]] = []
    points: dict[tuple[str, str], list[RankedPoint]] = {}
    seen: dict[tuple[ServingMethod, ServingSetup | None], tuple[ServedTimes | None, str | None]]
    tracked = iter(track(ordered, "forecasting serving"))
    for _, group in groupby(tracked, key=lambda case: _configuration(case)[:_SHARED_WORDS]):
        tables, seen = StepTables(), {}
        for case in group:
            for name in names:
                asked = (name, case.setup)
                if asked not in seen:  # many points stand in several dumps
                    seen[asked] = _times(case, name, tables)
                times, skipped = seen[asked]
                rows += [(case.row, row) for row in _rows(case, name, times, skipped)]
                if times is not None:
                    points.setdefault((name, case.half), []).extend(_ranked(case, times))
    return [row for _, row in sorted(rows, key=lambda each: each[0])], points


def _configuration(case: ServingCase) -> tuple[str, ...]:
    return case.setup.configuration if case.setup else ()


def _times(
    case: ServingCase, name: ServingMethod, tables: StepTables
) -> tuple[ServedTimes | None, str | None]:
    if case.setup is None:
        return None, case.skipped
    try:
        return forecast_point(case.setup, name, tables), None
    except InputError:
        return None, "unsupported plan"


def _rows(case: ServingCase, predictor: str, times: ServedTimes | None, skipped: str | None) -> Iterator[Row]:
    request = case.setup.request if case.setup else None
    columns = {name: cell for name, cell in case.columns.items() if name != "mode"}
    for operation in MEASURED:
        span = times.spans[operation] if times else None
        measured = case.measured_seconds[operation]
        reason = skipped or ("impossible value" if measured is None else None)
        if span is not None and not is_time(span.value):
            span, reason = None, "unsupported plan"
        yield Row(
            suite="serving",
            table=TABLE,
            row=case.row,
            device=spelled(str(case.columns.get("system") or "")),
            catalog_device=request.cluster.device if request else None,
            predictor=predictor,
            columns={**columns, "model": str(request.model) if request else "", "half": case.half},
            operation=operation,
            dtype=str(case.columns.get("precision") or "bf16"),
            framework=str(case.columns.get("backend") or ""),
            mode=str(case.columns.get("mode") or ""),
            predicted_seconds=span.value if span else None,
            predicted_seconds_low=span.low if span else None,
            predicted_seconds_high=span.high if span else None,
            measured_seconds=measured,
            skipped=reason,
        )


def _ranked(case: ServingCase, times: ServedTimes) -> Iterator[RankedPoint]:
    assert case.setup is not None
    request = case.setup.request
    ttft, tpot = (case.measured_seconds[name] for name in MEASURED)
    if ttft is None or tpot is None or request.answers is None or not isinstance(request.load, ClosedLoad):
        return
    assert request.deployment is not None
    of = (request.load.concurrency, request.answers.mean_tokens, request.deployment.num_devices)
    group = ", ".join(str(case.columns.get(name)) for name in ("model_path", "system", "isl", "osl"))
    yield RankedPoint(
        group,
        tokens_per_second(of[0], times.spans["ttft"].value, times.spans["tpot"].value, of[1], of[2]),
        tokens_per_second(of[0], ttft, tpot, of[1], of[2]),
    )


def _rank_entries(points: Mapping[tuple[str, str], list[RankedPoint]]) -> Iterator[dict[str, Any]]:
    for (predictor, half), of in sorted(points.items()):
        yield {
            "predictor": predictor,
            "group": "rank correlation of throughput",
            "value": half,
            "n": len(of),
            **describe_ranks(of),
        }


def _labels(rows: Sequence[Row]) -> dict[str, list[str]]:
    def of(name: str) -> list[str]:
        return [str(row.columns.get(name) or "") for row in rows]

    return {
        "model": of("model"),
        "half": of("half"),
        "lengths": [f"{row.columns.get('isl')}/{row.columns.get('osl')}" for row in rows],
        "clients": [clients_of(row.columns.get("concurrency")) for row in rows],
    }


def clients_of(count: Any) -> str:
    """'9 to 64' of 16."""
    for low, high in _CLIENTS:
        if isinstance(count, int | float) and low <= count <= high:
            return f"{low} to {high}" if high < 10**9 else f"{low} and more"
    return ""
