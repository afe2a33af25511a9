"""Published device-hours of whole runs beside forecasts: model, tokens and devices → step → run.

The table states model, devices and tokens; how each run was done (batch, sequence, plan) is stated beside,
with its source, in ``hours.toml``. Where no plan is published, the smallest that fits is taken.
Nothing is fitted to the hours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from perfcast.catalogs.clusters import ClusterEntry, load_cluster_entries
from perfcast.catalogs.devices import find_device_name, load_device
from perfcast.core.forecast.plan import PlanForecast
from perfcast.core.mode import METHODS
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.core.words import known_word
from perfcast.cost.model import CostModel
from perfcast.errors import PlanError
from perfcast.evidence.dataset.table import find_tables, read_frame
from perfcast.evidence.validate.published.forecast import Track, main_provenance
from perfcast.evidence.validate.row import Row
from perfcast.evidence.validate.runs.lines import Line, UnreadableError, spelled
from perfcast.evidence.validate.summary import Scores, score_rows
from perfcast.figures import parse_toml
from perfcast.frameworks.choice import default_framework
from perfcast.prediction.model import read_model
from perfcast.prediction.plan.cluster import cluster_of_device
from perfcast.prediction.plan.smallest import choose_smallest_plan
from perfcast.prediction.request.run import RunRequest
from perfcast.prediction.run.predict import RunForecast, count_checkpoint_bytes, forecast_run
from perfcast.prediction.step.predict import predict_plan
from perfcast.units import GIGA, HOUR, MEGA, TERA

TABLE = "gpu_hours"
_MEASURED = ("accelerator_hours", "notes")
_TOKEN_UNITS = {"T": TERA, "B": GIGA, "M": MEGA}


@dataclass(frozen=True, slots=True)
class Setup:
    """How a run was done, as far as it is published.

    Attributes:
        batch_size: Sequences of a step.
        plan: Keywords of ``Plan``, but for data parallelism and the number of micro-batches; None where
            none is published.
        training: Keywords of ``Training``.
    """

    model: Transformer
    sequence_length: int
    batch_size: int
    plan: Mapping[str, Any] | None
    training: Mapping[str, Any]
    source: str


@cache
def load_setups() -> Mapping[str, Setup]:
    """Published runs by the table's name of the model."""
    path = Path(str(resources.files("perfcast.evidence.validate.published") / "hours.toml"))
    return {name: _setup(name, row) for name, row in parse_toml(path).items()}


def _setup(name: str, row: Mapping[str, Any]) -> Setup:
    model = read_model(row["model"]).sizes if "model" in row else Transformer(**row["sizes"])
    plan = row.get("plan")
    if plan is not None and "stage_layers" in plan:
        plan = {**plan, "stage_layers": tuple(plan["stage_layers"])}
    return Setup(
        model, row["sequence_length"], row["batch_size"], plan, row.get("training", {}), row["source"]
    )


def protocol() -> dict[str, str]:
    """How whole runs are forecast, in words."""
    return {
        "whole_runs": "device-hours from model, tokens, devices and what is published of how each run was "
        "done (hours.toml); where no plan is published, the smallest that fits. Nothing "
        "is fitted to the hours, but steps' constants were chosen on runs of BLOOM among others",
    }


@dataclass(frozen=True, slots=True)
class HoursCase:
    """A line of the table."""

    table: str
    row: int
    cells: Mapping[str, Any]

    @property
    def device(self) -> str:
        """The file's own spelling."""
        return spelled(Line(self.cells).text("accelerator"))


def read_hours_cases(places: Sequence[Path]) -> list[HoursCase]:
    """All lines of the table in folders, or of single files; none where it is not there."""
    return [
        HoursCase(TABLE, row, cells)
        for path in find_tables(places, (TABLE,))
        for row, cells in enumerate(read_frame(path).to_dicts())
    ]


def hours_rows(
    cases: Sequence[HoursCase],
    methods: Sequence[str],
    cost_model: CostModel,
    *,
    track: Track = lambda items, words: items,
) -> tuple[tuple[Row, ...], tuple[Scores, ...]]:
    """A row for each case and method (seconds of all devices together), and the same in columns."""
    rows = tuple(
        _row(case, cost_model, method)
        for case in track(cases, "forecasting whole runs")
        for method in methods
    )
    return rows, tuple(score_rows(rows, _labels))


def _labels(rows: Sequence[Row]) -> dict[str, list[str]]:
    return {
        "device": [row.catalog_device or "" for row in rows],
        "plan": [row.columns.get("plan_is", "") for row in rows],
    }


def _row(case: HoursCase, cost_model: CostModel, method: str) -> Row:
    line = Line(case.cells)
    device = find_device_name(line.text("accelerator"))
    columns = {k: v for k, v in case.cells.items() if k not in _MEASURED}
    run, skipped, measured, provenance = None, None, None, None
    try:
        hours = line.number("accelerator_hours")
        measured = None if hours is None else hours * HOUR
        if device is None:
            raise UnreadableError("unknown device")
        run, step, setup = forecast_line(line, device, cost_model, method)
        provenance = main_provenance(step)
        columns["setup"] = setup.source
        columns["plan_is"] = "published" if setup.plan is not None else "the smallest that fits"
        columns["goodput"] = run.goodput
        columns["step_seconds"] = run.step_seconds
    except UnreadableError as error:
        skipped = error.reason
    except PlanError:
        skipped = "unsupported plan"
    share = (run.seconds_low / run.seconds, run.seconds_high / run.seconds) if run else (0.0, 0.0)
    seconds = run.device_seconds if run else None
    return Row(
        suite="published",
        table=TABLE,
        row=case.row,
        device=case.device,
        catalog_device=device,
        predictor=method,
        columns=columns,
        operation="run",
        mode="train",
        predicted_seconds=seconds,
        predicted_seconds_low=None if seconds is None else seconds * share[0],
        predicted_seconds_high=None if seconds is None else seconds * share[1],
        measured_seconds=measured,
        provenance=provenance,
        skipped=skipped,
    )


def forecast_line(
    line: Line, device: str, cost_model: CostModel, method: str
) -> tuple[RunForecast, PlanForecast, Setup]:
    """The run that a line states, and its step.

    Raises:
        UnreadableError: A column without which there is no run, a model of which nothing is known.
        PlanError: A plan that cannot be followed.
    """
    count = line.whole("num_accelerators")
    setup = load_setups().get(line.text("model"))
    if setup is None:
        raise UnreadableError("incomplete: model")
    target = load_device(device)
    entry = _cluster_entry(device)
    cluster = replace(entry.of_size(count), device=device)
    plan, training = _plan(setup, count, device, entry.levels[0].size or count)
    step = predict_plan(
        setup.model,
        cluster,
        plan,
        training=training,
        sequence_length=setup.sequence_length,
        cost_model=cost_model,
        method=known_word("method", method, METHODS),
        recommendations=False,
        memory=False,
    )
    request = RunRequest(tokens=parse_tokens(line.text("tokens")))
    run = forecast_run(step, request, target, count_checkpoint_bytes(setup.model, training))
    return run, step, setup


def _cluster_entry(device: str) -> ClusterEntry:
    """The vendor's own servers, of a device that none has in the catalog those of its relatives."""
    entries = load_cluster_entries()
    try:
        return entries[cluster_of_device(device, 1).name]
    except PlanError:
        die = load_device(device).die
        alike = [e for e in entries.values() if load_device(e.device).die == die and len(e.levels) > 1]
        if not alike:
            raise
        return alike[-1]


def _plan(setup: Setup, count: int, device: str, server: int) -> tuple[Plan, Training]:
    if setup.plan is None:
        training = Training(**{"framework": "megatron", **setup.training})
        plan = choose_smallest_plan(
            setup.model, training, setup.sequence_length, count, setup.batch_size, load_device(device), server
        )
        return plan, training
    cut = setup.plan.get("tensor_parallel", 1) * setup.plan.get("pipeline_parallel", 1)
    replicas = count // cut
    micro = setup.plan.get("micro_batch_size", 1)
    if count % cut or setup.batch_size % (replicas * micro):
        raise PlanError(f"{count} devices, {setup.batch_size} sequences: no multiples of {cut} and {micro}")
    plan = Plan(
        **setup.plan, data_parallel=replicas, num_micro_batches=setup.batch_size // (replicas * micro)
    )
    return plan, Training(**{"framework": default_framework(plan), **setup.training})


def parse_tokens(text: str) -> float:
    """``'1.4T'``, ``'299.9B'``, ``'15T+'`` → tokens.

    Raises:
        UnreadableError: Empty, or something else.
    """
    text = text.rstrip("+").strip()
    if not text:
        raise UnreadableError("incomplete: tokens")
    try:
        return float(text[:-1]) * _TOKEN_UNITS[text[-1]]
    except (KeyError, ValueError):
        raise UnreadableError("impossible value") from None
