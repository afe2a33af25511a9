"""On another device: kernels by what a vendor's libraries and launches add, hosts by processor."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from perfcast.catalogs.devices import load_device
from perfcast.cli.trace.command import trace as trace_command
from perfcast.cost.host.processors import resolve_processor
from perfcast.cost.learned.model import LearnedCost
from perfcast.evidence.train.recorded_kernels.fit import fit_kernels, format_kernels
from perfcast.evidence.train.recorded_kernels.observe import ObservedKernels
from perfcast.traces.forecast.eager_kernels import (
    KERNEL_FAMILIES,
    SHARING_DOUBT,
    EagerKernels,
    load_eager_kernels,
    parse_eager_kernels,
    sharing,
)
from perfcast.traces.forecast.elsewhere import RecordedWorks, ratios_elsewhere
from perfcast.traces.forecast.from_traces import TraceForecast, forecast_from_traces
from perfcast.traces.forecast.operations import RecordedOperations
from perfcast.traces.forecast.ratios import Side, price_pairs
from perfcast.traces.forecast.request import TraceForecastRequest
from perfcast.traces.link.kernels import nest
from perfcast.units import MICRO
from recorded_traces import Recording

COST = LearnedCost()
H100, MI300X = (Side(load_device(name), COST, "fp32") for name in ("h100-sxm", "mi300x"))
_SHAPES = {"Input_Dims": [[64, 64], [64, 64], []], "Input_type": ["float", "float", "Scalar"]}


def recorded(copy: bool = False) -> Recording:
    """A step of 400 µs: ten tiny additions of 3 µs each, and perhaps a copy from the host."""
    recording = Recording()
    recording.step(1, 0, 400)
    for place in range(10):
        recording.operator("aten::add", 30 * place + 10, 20, **_SHAPES)
        recording.call("cudaLaunchKernel", 30 * place + 15, 5, place)
        recording.kernel("vectorized_elementwise", 30 * place + 22, 3, place)
    if copy:
        recording.operator("aten::copy_", 330, 20, **_SHAPES)
        recording.call("cudaMemcpyAsync", 335, 5, 50)
        recording.copy("Memcpy HtoD (Pageable -> Device)", 342, 7, 50)
    return recording


def forecast(folder: Path, recording: Recording, **request: str) -> TraceForecast:
    asked = TraceForecastRequest(before=H100, after=MI300X, **request)
    return forecast_from_traces([recording.read(folder)], asked)


def works_of(folder: Path) -> RecordedWorks:
    trace = recorded().read(folder)
    operation = RecordedOperations(trace, nest(trace.events).parents).of(
        int(np.flatnonzero([trace.events.name(row) == "aten::add" for row in range(len(trace.events))])[0])
    )
    one, no = np.ones(1), np.zeros(1, dtype=np.bool_)
    return RecordedWorks(3 * MICRO * one, [operation], [operation], one, 3 * MICRO * one, no, no)


def test_a_ratio_by_hand(tmp_path: Path):
    works = works_of(tmp_path)
    prices = price_pairs(works.before, works.after, H100, MI300X)
    ours, theirs = EagerKernels(1.5, 0.5 * MICRO, 0.2), EagerKernels(2.0, 2 * MICRO, 0.4)
    constants = {
        vendor: dict.fromkeys(KERNEL_FAMILIES, one)
        for vendor, one in (("nvidia", ours), ("amd", theirs), ("other", theirs))
    }
    found = ratios_elsewhere(works, H100, MI300X, constants=constants)
    stated = 1.5 * prices.before[0] + 0.5 * MICRO
    will = 2.0 * prices.after[0] + 2 * MICRO
    shared = sharing(H100.device, MI300X.device)
    assert found.ratio[0] == pytest.approx(will * (3 * MICRO / stated) ** shared / (3 * MICRO))
    apart = math.sqrt(1 - shared**2) * math.hypot(
        1.6449 * 0.4, math.sqrt(prices.common[0]) * math.log(prices.high[0] / prices.after[0])
    )
    assumed = 1.6449 * SHARING_DOUBT * (1 - shared) * math.log(3 * MICRO / stated)
    width = math.hypot(apart, assumed)
    assert found.high[0] == pytest.approx(found.ratio[0] * math.exp(width))
    assert found.low[0] == pytest.approx(found.ratio[0] * math.exp(-width))


def test_families_that_err_apart_err_less_together(tmp_path: Path):
    one = works_of(tmp_path)
    unknown = replace(
        one,
        seconds=np.array([3, 3]) * MICRO, operator_seconds=np.array([3, 3]) * MICRO,
        before=[one.before[0], None], after=[one.after[0], None],
        num_kernels=np.ones(2), stays=np.zeros(2, dtype=np.bool_), is_link=np.zeros(2, dtype=np.bool_),
    )  # fmt: skip
    alone, both = (ratios_elsewhere(works, H100, MI300X) for works in (one, unknown))
    assert both.ratio[0] == pytest.approx(alone.ratio[0])
    assert alone.ratio[0] < both.high[0] < alone.high[0]


def test_tiny_kernels_are_begun_and_ended_more_slowly_by_another_vendor(tmp_path: Path):
    found = forecast(tmp_path, recorded())
    assert found.device_seconds_before == pytest.approx(30 * MICRO)
    # MI300X has 1.6 times the bandwidth; kernels of some microseconds do not profit.
    assert found.device_seconds_after > found.device_seconds_before
    assert found.device_seconds_low < found.device_seconds_after < found.device_seconds_high
    assert found.seconds_by_provenance == pytest.approx({"priced": 30 * MICRO})


def test_copies_over_the_hosts_link_stay_with_a_width(tmp_path: Path):
    found = forecast(tmp_path, recorded(copy=True))
    assert found.seconds_by_provenance["as recorded"] == pytest.approx(7 * MICRO)
    assert found.device_seconds_high - found.device_seconds_after > 0


def test_hosts_of_machines_that_nobody_named_are_the_usual_ones_and_unsure_twice(tmp_path: Path):
    usual = [resolve_processor(None, side.device) for side in (H100, MI300X)]
    found = forecast(tmp_path, recorded())
    ratio = usual[1].slowness / usual[0].slowness
    spread = math.exp(math.hypot(*(math.log(one.spread) for one in usual)))
    assert found.host_seconds_after == pytest.approx(ratio * found.host_seconds_before)
    assert found.host_seconds_high == pytest.approx(spread * found.host_seconds_after)
    assert found.host_seconds_low == pytest.approx(found.host_seconds_after / spread)
    assert "--recorded-host and --host name" in " ".join(found.assumptions)


def test_a_named_host_is_surer_and_the_same_one_surest(tmp_path: Path):
    def width(**named: str) -> float:
        found = forecast(tmp_path, recorded(), **named)
        return found.host_seconds_high / found.host_seconds_after

    same = width(host="epyc-7742", recorded_host="epyc-7742")
    assert same == pytest.approx(resolve_processor("epyc-7742", H100.device).spread)
    assert same < width(host="epyc-9654", recorded_host="epyc-7742") < width(host="epyc-9654") < width()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", "fast"], "--host is of a machine with another device"),
        (["--device", "mi300x", "--host", "fast", "--overheads", "o.json"], "give one of them"),
        (["--device", "mi300x", "--host", "epyc-9999"], "epyc-9"),
    ],
)
def test_hosts_that_cannot_be_are_errors(tmp_path: Path, words: list[str], said: str):
    path = recorded().write(tmp_path)
    result = CliRunner().invoke(trace_command, ["forecast", str(path), *words])
    assert result.exit_code
    assert said in " ".join(f"{result.output} {result.exception}".split())


def test_constants_are_found_again_and_a_vendor_without_recordings_has_the_widest_errors():
    generator = np.random.default_rng(0)
    truth = {"nvidia": (1.0, 0.5 * MICRO), "amd": (1.3, 3 * MICRO)}
    observed = []
    for place in range(4):
        for vendor, (factor, seconds) in truth.items():
            prices = np.exp(generator.uniform(math.log(1e-6), math.log(1e-5), 40))
            counts = np.ones(40)
            own = factor * prices + seconds * counts
            observed.append(ObservedKernels(f"{vendor} {place}", vendor, "", "rows", own, prices, counts))
    found = fit_kernels(observed)
    for vendor, (factor, seconds) in truth.items():
        assert found[vendor]["rows"].factor == pytest.approx(factor, rel=0.15)
        assert found[vendor]["rows"].kernel_seconds == pytest.approx(seconds, abs=0.6 * MICRO)
        assert found[vendor]["rows"].deviation < found[vendor]["product"].deviation
    assert all(one.deviation == 0.6 for one in found["other"].values())
    assert parse_eager_kernels(format_kernels(found, observed)).keys() == found.keys()


def test_shipped_constants_are_of_all_vendors_and_families():
    shipped = load_eager_kernels()
    assert set(shipped) == {"amd", "nvidia", "other"}
    assert all(set(families) == set(KERNEL_FAMILIES) for families in shipped.values())
    assert all(0.5 <= one.factor <= 8 and 0 <= one.kernel_seconds <= 6 * MICRO
               for families in shipped.values() for one in families.values())  # fmt: skip
