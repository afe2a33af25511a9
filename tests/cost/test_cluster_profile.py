"""A profile of a cluster: prices on one axis and on several, JSON, and what is not a profile."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from perfcast.cost.cluster_profile import (
    AxisProfile,
    ClusterProfile,
    CollectiveSample,
    fit_axes,
    load_cluster_profile,
    price_collective,
    price_doubt,
    save_cluster_profile,
)
from perfcast.cost.collective_fit import Curve
from perfcast.cost.collective_fit.affine import Affine
from perfcast.errors import CalibrationError, UnknownNameError


def line(latency: float, rate: float) -> Curve:
    return Curve(Affine(latency, rate), 9, 1e3, 1e9, 1.0, 0.0, 0.0)


def axis(name: str, size: int, latency: float, rate: float) -> AxisProfile:
    names = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send")
    return AxisProfile(name, size, {key: line(latency, rate) for key in names})


PROFILE = ClusterProfile(
    "box", "gloo", 8, (axis("dp", 2, 10.0, 1.0), axis("tp", 4, 1.0, 100.0), AxisProfile("pp", 1, {})),
    "by hand", "2026-01-01T00:00:00+00:00",
)  # fmt: skip


def test_one_axis_costs_what_its_curve_says():
    assert price_collective(PROFILE, "all_reduce", ["tp"], [0, 100, 200]).tolist() == [1.0, 2.0, 3.0]


def test_all_reduce_over_two_axes_sends_a_share_over_the_outer_one():
    # reduce-scatter 400 inside: 1 + 4; all-reduce 400 / 4 outside: 10 + 100; all-gather 400 inside: 1 + 4
    assert price_collective(PROFILE, "all_reduce", ["dp", "tp"], 400) == pytest.approx(120.0)


def test_all_gather_over_two_axes_fills_the_inner_axis_last():
    # 400 / 4 outside: 10 + 100; 400 inside: 1 + 4
    for collective in ("all_gather", "reduce_scatter"):
        assert price_collective(PROFILE, collective, ["dp", "tp"], 400) == pytest.approx(115.0)


def test_all_to_all_and_broadcast_pay_every_axis_in_full():
    for collective in ("all_to_all", "broadcast"):
        assert price_collective(PROFILE, collective, ["dp", "tp"], 400) == pytest.approx(410.0 + 5.0)


def test_an_axis_of_one_rank_costs_nothing():
    assert price_collective(PROFILE, "all_reduce", ["pp"], [1.0, 2.0]).tolist() == [0.0, 0.0]
    assert price_collective(PROFILE, "send", ["pp", "tp"], 100) == pytest.approx(2.0)


def test_what_was_not_measured_has_no_price():
    with pytest.raises(UnknownNameError, match="profiled axis 'cp'"):
        price_collective(PROFILE, "all_reduce", ["cp"], 1)
    with pytest.raises(UnknownNameError, match="collective measured along 'tp' 'reduce'"):
        price_collective(PROFILE, "reduce", ["tp"], 1)
    with pytest.raises(CalibrationError, match="cannot be composed"):
        price_collective(PROFILE, "send", ["dp", "tp"], 1)


def test_a_profile_survives_a_file(tmp_path: Path):
    save_cluster_profile(PROFILE, tmp_path / "p.json")
    assert load_cluster_profile(tmp_path / "p.json") == PROFILE


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": 9}, "not a cluster profile of schema 1"),
        ({"world_size": 0}, "'world_size' is 0"),
        ({"name": 3}, "'name' must be a str"),
        ({"axes": [{"name": "tp", "size": 2, "curves": {"gossip": {}}}]}, "collective in .*'gossip'"),
        ({"axes": [{"name": "tp", "size": 2, "curves": {"send": {}}}]}, r"axes\[0\]: send: form is None"),
        ({"axes": [7]}, r"axes\[0\]: expected an object"),
    ],
)
def test_what_is_not_a_profile_is_refused(tmp_path: Path, change: dict[str, object], words: str):
    path = tmp_path / "p.json"
    path.write_text(json.dumps({**PROFILE.to_json(), **change}))
    with pytest.raises((CalibrationError, UnknownNameError), match=words):
        load_cluster_profile(path)


def test_a_file_that_is_no_json_or_not_there_is_refused(tmp_path: Path):
    (tmp_path / "p.json").write_text("{")
    with pytest.raises(CalibrationError, match="not valid JSON"):
        load_cluster_profile(tmp_path / "p.json")
    with pytest.raises(CalibrationError, match="no such file"):
        load_cluster_profile(tmp_path / "q.json")


def test_samples_become_a_curve_per_axis_and_collective():
    samples = [
        CollectiveSample(name, size, collective, n, latency + n / 1e9)
        for name, size, latency in (("dp", 2, 1e-4), ("tp", 4, 1e-5))
        for collective in ("all_reduce", "send")
        for n in (2**k for k in range(10, 20))
    ]
    axes = fit_axes(samples).axes
    assert [(a.name, a.size, list(a.curves)) for a in axes] == [
        ("dp", 2, ["all_reduce", "send"]), ("tp", 4, ["all_reduce", "send"]),
    ]  # fmt: skip
    assert axes[1].curves["send"].seconds(np.array(1e6)) == pytest.approx(1e-5 + 1e-3)


def test_too_few_samples_are_named():
    fits = fit_axes([CollectiveSample("tp", 2, "send", 8, 1e-5)])
    with pytest.raises(CalibrationError, match=r"send along 'tp' \(1 different message sizes are too few"):
        fits.check()


def test_times_that_fall_refuse_their_collective_alone_by_name_and_a_profile_remembers(tmp_path):
    sizes = [2**k for k in range(10, 20)]
    samples = [CollectiveSample("tp", 2, "send", n, 1e-5 + n / 1e9) for n in sizes]
    samples += [CollectiveSample("tp", 2, "all_reduce", n, 1e-2 / n) for n in sizes]
    fits = fit_axes(samples)
    fits.check()
    assert [list(axis.curves) for axis in fits.axes] == [["send"]]
    assert [(each.axis, each.collective) for each in fits.refused] == [("tp", "all_reduce")]
    assert fits.refused[0].reason.startswith("larger messages took less time")
    profile = ClusterProfile("c", "gloo", 2, fits.axes, refused=fits.refused)
    save_cluster_profile(profile, tmp_path / "p.json")
    assert load_cluster_profile(tmp_path / "p.json").refused == fits.refused
    with pytest.raises(UnknownNameError, match="all_reduce"):
        price_collective(profile, "all_reduce", ["tp"], [1024])


def test_a_curve_that_misses_sizes_left_out_of_it_is_refused_and_a_middling_one_is_doubtful():
    sizes = [2**k for k in range(10, 26)]

    def noisy(factor: float) -> list[CollectiveSample]:
        times = [(1e-5 + n / 1e9) * (factor if i % 2 else 1) for i, n in enumerate(sizes)]
        return [CollectiveSample("tp", 2, "send", n, t) for n, t in zip(sizes, times, strict=True)]

    assert fit_axes(noisy(1.0)).axes[0].curves["send"].quality == "good"
    fits = fit_axes(noisy(1.8))
    assert fits.axes[0].curves["send"].quality == "doubtful"
    profile = ClusterProfile("c", "gloo", 2, fits.axes)
    assert "off by" in price_doubt(profile, "send", ["tp"])
    refused = fit_axes(noisy(40.0)).refused
    assert [each.collective for each in refused] == ["send"]
    assert "off by" in refused[0].reason
