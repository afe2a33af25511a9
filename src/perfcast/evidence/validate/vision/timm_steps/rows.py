"""Rows of the contract for timm's tables: each different step captured once, priced on every device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from perfcast.catalogs.devices import load_device
from perfcast.core.captured import StepSizes
from perfcast.core.graph import Graph
from perfcast.errors import InputError
from perfcast.evidence.validate.row import Row, weakest_provenance
from perfcast.evidence.validate.vision.timm_steps.cases import STEM, UNSUPPORTED, TimmCase
from perfcast.evidence.validate.vision.timm_steps.graphs import kept_graph
from perfcast.prediction.names import resolve_cost_model
from perfcast.prediction.one_device.forecast import forecast_from
from perfcast.prediction.one_device.graph import format_as_run, run_on
from perfcast.prediction.program import PYTORCH

PROTOCOL = (
    "timm: steps of the benchmark of huggingface/pytorch-image-models, forecast as 'perfcast predict "
    "timm:NAME' of the installed timm does (models that it changed since are forecast as they are now): "
    "inference under autocast, training with cross entropy and SGD with momentum; attention is fused and "
    "optimizers run over lists since PyTorch 2.0. The processor that issued the kernels is not stated and "
    "taken as usual for the device. learned's constants of convolutions and of kernels around them were "
    "fitted to eager half-precision rows of the published table, those of processors to 193 of its compiled "
    "fp32 rows on an i9-10940X; rows of other devices and models, and other fp32 and compiled rows were not"
)


def score_timm(
    cases: Sequence[TimmCase], predictors: Sequence[str], say: Callable[[str], None] = lambda text: None
) -> list[Row]:
    """One row per case and predictor, in the order of the file."""
    found = sorted(_rows(cases, predictors, say), key=lambda item: item[:2])
    return [row for _, _, row in found]


def _rows(
    cases: Sequence[TimmCase], predictors: Sequence[str], say: Callable[[str], None]
) -> Iterator[tuple[int, int, Row]]:
    for case in (case for case in cases if case.skipped):
        for number, name in enumerate(predictors):
            yield case.row, number, _row(case, name, skipped=case.skipped)
    wanted = sorted((case for case in cases if not case.skipped), key=_order)
    for key, group in groupby(wanted, _key):
        same = list(group)
        graph = _captured(same[0], say, str(key))
        for case in same:
            for number, name in enumerate(predictors):
                yield case.row, number, _forecast(case, graph, name, say)


def _key(case: TimmCase) -> tuple[object, bool]:
    assert case.catalog_device is not None
    return case.request, load_device(case.catalog_device).is_cpu


def _order(case: TimmCase) -> str:
    return str(_key(case))


def _captured(case: TimmCase, say: Callable[[str], None], what: str) -> Graph | None:
    assert case.catalog_device is not None
    request = case.request
    sizes = f"{request.batch_size} images of {request.image_size}, {request.memory_format}"
    say(f"{request.model}, {request.mode}, {sizes}")
    try:
        return kept_graph(request, load_device(case.catalog_device))
    except InputError as error:
        say(f"{request.model}: {error}")
        return None


def _forecast(case: TimmCase, graph: Graph | None, predictor: str, say: Callable[[str], None]) -> Row:
    assert case.catalog_device is not None
    if graph is None:
        return _row(case, predictor, skipped=UNSUPPORTED)
    device = load_device(case.catalog_device)
    request = replace(case.request, compile=case.is_compiled and not device.is_local)
    try:
        cost_model = resolve_cost_model(predictor, device, None if request.mode == "train" else PYTORCH)
        layout = format_as_run(graph, request, device)
        if layout != request.memory_format:
            graph = kept_graph(replace(case.request, memory_format=layout), device)
        lowered = run_on(graph, request, device)
        sizes = StepSizes(batch_size=request.batch_size)
        found = forecast_from(lowered, request, device, cost_model, sizes)
    except InputError as error:
        say(f"{request.model}: {error}")
        return _row(case, predictor, skipped=UNSUPPORTED)
    return _row(
        case,
        predictor,
        predicted=(found.step_seconds, found.step_seconds_low, found.step_seconds_high),
        provenance=weakest_provenance(found.seconds_by_provenance),
    )


def _row(
    case: TimmCase,
    predictor: str,
    *,
    predicted: tuple[float | None, float | None, float | None] = (None, None, None),
    provenance: str | None = None,
    skipped: str | None = None,
) -> Row:
    seconds, low, high = predicted
    return Row(
        suite="vision",
        table=STEM,
        row=case.row,
        device=case.device,
        catalog_device=case.catalog_device,
        predictor=predictor,
        columns=case.columns,
        operation="step",
        dtype=str(case.columns.get("dtype") or "") or None,
        framework="pytorch",
        mode=str(case.columns.get("mode") or "") or None,
        predicted_seconds=seconds,
        predicted_seconds_low=low,
        predicted_seconds_high=high,
        measured_seconds=case.measured_seconds,
        provenance=provenance,
        skipped=skipped,
    )
