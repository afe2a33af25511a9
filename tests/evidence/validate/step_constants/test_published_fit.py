"""Constants of steps: found again in made-up runs, written and read back, with an honest spread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from perfcast.core.training import FRAMEWORKS, Training
from perfcast.evidence.validate.published.priced import Chosen
from perfcast.evidence.validate.step_constants.fit import Evidence, Fitter
from perfcast.evidence.validate.step_constants.scales import Scalable, host_owner, parameters
from perfcast.evidence.validate.step_constants.spread import fit_spread, spread_of
from perfcast.evidence.validate.step_constants.write import write_step_constants
from perfcast.frameworks.load import load_training_profile, parse_framework
from perfcast.prediction.step.constants import parse_interval_widening
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
    chosen = Chosen(None, values, {"": (0.7, 1.4), "dense one node": (0.8, 1.2)})
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
    assert scaling.spread == {"": (0.7, 1.4), "dense one node": (0.8, 1.2)}
    assert scaling.attention["flash1 hopper"] > 1


def test_a_spread_holds_nine_in_ten() -> None:
    ratios = np.exp(np.random.default_rng(0).normal(0, 0.2, 2000))
    low, high = fit_spread(["dense"] * 2000, ["one"] * 2000, ratios.tolist())["dense"]
    assert np.mean((ratios >= low) & (ratios <= high)) == pytest.approx(0.9, abs=0.01)


def test_a_class_of_few_measurements_takes_the_spread_of_all() -> None:
    spread = fit_spread(["dense"] * 50 + ["rare"] * 3, ["one"] * 53, [1.0] * 50 + [3.0] * 3)
    assert "rare" not in spread
    assert spread_of(spread, "rare") == spread[""]
