"""Coverage of steps forecast from recordings: steps left out, and the same model on another device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perfcast.catalogs.devices import load_device
from perfcast.cost.learned.model import LearnedCost
from perfcast.evidence.validate.coverage.subject import Say, Subject
from perfcast.evidence.validate.summary import Scores, score_figures
from perfcast.traces.events import Trace
from perfcast.traces.forecast.from_traces import TraceForecast, forecast_from_traces
from perfcast.traces.forecast.ratios import Side
from perfcast.traces.forecast.request import TraceForecastRequest
from perfcast.traces.kineto.borrowed_inputs import read_ranks_with_inputs
from perfcast.traces.timeline.ranks import build_ranks

#: Recordings of several steps, below a folder of recordings, and the device of each.
_STEPS = {
    "hta/nccl_2rank_a100.json.gz": "a100-sxm-80gb",
    "hta/ns_resolution_v100.json.gz": "v100-sxm-32gb",
    "hta/sampled_128rank_rank0.json.gz": "unknown",
    "tracelens/mi300_resnet_act_checkpoint.json.gz": "mi300x",
}
#: Models recorded on two devices, by the name that follows the device's.
_PAIRS = ("Falconsai_nsfw_image_detection__1016002", "gaunernst_bert-small-uncased__1016001")
_SIDES = {"h100": "h100-sxm", "mi300": "mi300x"}


@dataclass(frozen=True)
class _Row:
    found: TraceForecast
    measured: float
    device: str
    kind: str
    source: str


def _score(places: Sequence[Path], max_rows: int, say: Say) -> Sequence[Scores]:
    rows: list[_Row] = []
    for place in places:
        for name, device in _STEPS.items():
            if (place / name).is_file() and len(rows) < max_rows:
                say(name)
                rows += _left_out(place / name, device, say)
        for model in _PAIRS:
            paths = {side: place / "tracelens" / f"{side}_{model}.json.gz" for side in _SIDES}
            if all(path.is_file() for path in paths.values()) and len(rows) < max_rows:
                say(model)
                rows += _elsewhere(model, paths)
    if not rows:
        return ()
    figures = [
        (r.found.step_seconds, r.found.step_seconds_low, r.found.step_seconds_high, r.measured) for r in rows
    ]
    labels = {
        "device": [row.device for row in rows],
        "kind": [row.kind for row in rows],
        "split": [row.source for row in rows],
    }
    return [score_figures("recording", figures, labels, [False] * len(rows))]


def _left_out(path: Path, device: str, say: Say) -> Iterator[_Row]:
    """Every step but the first, which finds the device's queue empty, from those before or after it."""
    traces = read_ranks_with_inputs([path])
    numbers = [step.number for step in traces[0].steps]
    steps = [_measured(traces, number) for number in numbers]
    if len(steps) > 1:
        say(f"steps vary by {np.std(steps, ddof=1) / np.mean(steps):.2%} (standard deviation)")
    for place in range(1, len(numbers)):
        for others in (numbers[:place], numbers[place + 1 :]):
            if others:
                found = forecast_from_traces(traces, TraceForecastRequest(steps=others))
                yield _Row(found, steps[place], device, "another step", path.name)


def _elsewhere(model: str, paths: dict[str, Path]) -> Iterator[_Row]:
    traces = {side: read_ranks_with_inputs([path]) for side, path in paths.items()}
    cost = LearnedCost()
    sides = {side: Side(load_device(name), cost, "fp32") for side, name in _SIDES.items()}
    for first, second in (("h100", "mi300"), ("mi300", "h100")):
        request = TraceForecastRequest(before=sides[first], after=sides[second])
        found = forecast_from_traces(traces[first], request)
        measured = max(build_ranks(traces[second])[0].measured_seconds)
        yield _Row(found, measured, _SIDES[second], "another device", model)


def _measured(traces: Sequence[Trace], number: int) -> float:
    return max(program.measured_seconds[0] for program in build_ranks(traces, [number]))


RECORDED_STEPS = Subject(
    "recorded steps",
    "each step from those recorded before it, and from those after it; a model's step on H100 from its "
    "recording on MI300X and the other way round. How far steps differ was set on the same recordings",
    _score,
)
