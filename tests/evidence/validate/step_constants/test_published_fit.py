"""Constants of steps: found again in made-up runs, written and read back, with an honest spread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from perfcast.core.plan import Plan
from perfcast.core.training import FRAMEWORKS, Training
from perfcast.evidence.validate.published.priced import Chosen
from perfcast.evidence.validate.step_constants.fit import Evidence, Fitter
from perfcast.evidence.validate.step_constants.scales import Scalable, host_owner, parameters
from perfcast.evidence.validate.step_constants.widths import WidthRow, fit_widths, widths_without_each
from perfcast.evidence.validate.step_constants.write import write_step_constants
from perfcast.frameworks.load import load_training_profile, parse_framework
from perfcast.prediction.step.constants import parse_interval_widening
from perfcast.prediction.step.interval import Stall, StepParts, StepWidths, parse_step_widths
from perfcast.prediction.step.scaling import CLASSES, parse_step_scaling


@dataclass(frozen=True)
class Made:
    """A run of so many seconds of products and launches of the host."""

    product_seconds: float
    num_launches: int
    framework: str
    die: str = "GH100"
    network: str = "infiniband"

    @property
    def run(self) -> Any:
        return SimpleNamespace(training=Training(framework=self.framework))

    @property
    def host(self) -> str:
        return self.framework

    @property
    def classes(self) -> Any:
        return np.array([CLASSES.index("products")])

    def launch_seconds(self, values: Mapping[str, float]) -> float:
        return values["launch"] * values[f"launch.{self.framework}"]


def made_forecast(run: Scalable, values: Mapping[str, float]) -> float:
    made = cast("Made", run)
    device = made.product_seconds * values["products"] * values[f"dies.{made.die}"]
    return max(device, made.num_launches * made.launch_seconds(values)) + values["fixed"]


def made_fitter(pace: float, slower: float) -> Fitter:
    """Runs of two sources: some wait for the host, some for the device."""
    truth = {"products": slower, "dies.GH100": 1.0, "launch": pace, "launch.nanotron": 1.0, "fixed": 0.005}
    runs = [Made(seconds, launches, "nanotron") for seconds in (0.1, 1.0, 3.0) for launches in (100, 30_000)]
    runs = runs * 8
    seconds = np.array([made_forecast(cast("Scalable", run), truth) for run in runs])
    sources = ["one", "other"] * (len(runs) // 2)
    names = [str(index) for index in range(len(runs))]
    evidence = Evidence(cast("list[Scalable]", runs), seconds, sources, names)
    return Fitter(evidence.thinned(), parameters(["GH100"], ["infiniband"]), made_forecast)


def test_a_fit_finds_the_hosts_pace_and_the_slower_products_again() -> None:
    values = made_fitter(40e-6, 1.2).fit()
    assert values["launch"] * values["launch.nanotron"] == pytest.approx(40e-6, rel=0.05)
    assert values["products"] * values["dies.GH100"] == pytest.approx(1.2, rel=0.03)


def test_a_source_left_out_is_not_seen() -> None:
    fitter = made_fitter(40e-6, 1.2)
    spoiled = Evidence(
        fitter.evidence.runs,
        np.where(np.array(fitter.evidence.sources) == "one", 1e3, 1.0) * fitter.evidence.measured,
        fitter.evidence.sources,
        fitter.evidence.names,
        fitter.evidence.sizes,
    )
    left_out = Fitter(spoiled, fitter.parameters, made_forecast).fit(without="one")
    assert left_out == pytest.approx(fitter.fit(without="one"))


def test_a_written_file_is_read_back(tmp_path: Path) -> None:
    values = {p.name: p.start for p in parameters(["GH100"], ["efa"])} | {"dies.GH100": 1.07, "node": 1.3}
    chosen = Chosen(None, values, WIDTHS)
    path, *profiles = write_step_constants(chosen, tmp_path)
    scaling, hosts = parse_step_scaling(path), {}
    for written in profiles:
        training = parse_framework(written).training
        assert training is not None
        hosts[written.stem] = training.host
    assert set(hosts) == {host_owner(name) for name in FRAMEWORKS}
    assert hosts["nanotron"].launch_seconds == pytest.approx(values["launch"])
    assert hosts["fsdp"] == replace(load_training_profile("fsdp").host, fixed_seconds=values["fixed"])
    assert parse_interval_widening(path) == 1
    assert (scaling.dies["GH100"], scaling.factors["node"]) == (1.07, 1.3)
    assert parse_step_widths(path) == WIDTHS
    assert scaling.attention["flash1 hopper"] > 1


WIDTHS = StepWidths(
    {"whole": 0.1, "network": 0.5},
    {"whole": 0.2, "new_die": 0.3},
    {"nanotron": (Stall(0.1, 1.0), Stall(1.2, 0.3))},
    {"GH100": 4, "GB110": 1},
)
PARTS_OF_A_STEP = StepParts(0.05, 0.1, 0.0, 0.0, 0.0, 0.0, "GH100", several_nodes=False)


def made_rows(sources: int, runs: int, deviation: float, framework: str = "fsdp") -> list[WidthRow]:
    """Runs whose measured times are so far from their forecasts, in logarithms."""
    drawn = np.random.default_rng(0)
    return [
        WidthRow(
            f"source {at}", f"model {run % 3}", framework, Plan(), PARTS_OF_A_STEP, 1.0,
            float(np.exp(drawn.normal(0, deviation))),
        )
        for at in range(sources) for run in range(runs)
    ]  # fmt: skip


def inside(rows: list[WidthRow], widths: StepWidths) -> float:
    ends = [row.interval(widths) for row in rows]
    return float(np.mean([low <= row.measured <= high for row, (low, high) in zip(rows, ends, strict=True)]))


def test_widths_hold_nine_in_ten_and_a_little_more_of_what_they_are_fitted_to() -> None:
    rows = made_rows(4, 250, 0.2)
    widths = fit_widths(rows, ())
    assert 0.9 <= inside(rows, widths) <= 0.97
    assert widths.sources == {"GH100": 4}


def test_a_source_of_noisy_repeats_widens_no_other_and_tells_what_its_program_stalls_by() -> None:
    quiet, noisy = made_rows(3, 60, 0.1), []
    for pipeline in (1, 2):
        plan = Plan(pipeline_parallel=pipeline, data_parallel=64 // pipeline, num_micro_batches=8)
        noisy += [
            WidthRow(
                "grid", f"model {n % 2}", "nanotron", plan, PARTS_OF_A_STEP, 2.0, 2.0 + 8 * pipeline * n / 40
            )
            for n in range(40)
        ]
    alone = fit_widths(quiet, ("grid",))
    widths = fit_widths([*quiet, *noisy], ("grid",))
    assert (widths.above, widths.below) == (alone.above, alone.below)
    one, more = widths.stalls["nanotron"]
    assert (one.seconds, more.seconds) == (pytest.approx(0.9, abs=0.15), pytest.approx(1.8, abs=0.3))
    assert 0.88 <= inside(noisy, widths) <= 0.98
    assert "fsdp" not in widths.stalls


def test_what_is_left_out_decides_nothing_of_its_own_width() -> None:
    rows = [
        *made_rows(3, 40, 0.05),
        *[replace(row, source="far", measured=3.0) for row in made_rows(1, 40, 0.0)],
    ]
    without = widths_without_each(rows, ())
    assert inside([row for row in rows if row.source == "far"], without["far", "model 0"]) == 0
    assert without["source 0", "model 0"].above["whole"] > 0.3
