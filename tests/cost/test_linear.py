"""The fitted lines: recovered from made-up machines, robust, honest about what was not calibrated."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from perfcast.core.dtype import DType
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.tensor import TensorType
from perfcast.cost.families import Features, family_of
from perfcast.cost.linear import Fits, LinearCost, Measurement, fit_line, fit_lines, line_seconds
from perfcast.cost.model import roofline_seconds
from perfcast.cost.profile import DeviceProfile, Line, load_local_profile, load_profile_of, local_device
from perfcast.errors import CalibrationError

LATENCY, RATE, BANDWIDTH = 5e-6, 150e9, 20e9


def product(m: int, n: int, k: int, seconds: float | None = None) -> Measurement:
    flops, traffic = 2 * m * n * k, 4 * (m * n + n * k + m * k)
    features = Features("matmul_nn", DType.FP32, flops, traffic, (1.0, float(m), float(n), float(k)))
    exact = LATENCY + max(flops / RATE, traffic / BANDWIDTH)
    return Measurement(f"mm {m} {n} {k}", features, exact if seconds is None else seconds)


def addition(num_bytes: int, seconds: float) -> Measurement:
    return Measurement(
        f"add {num_bytes}", Features("elementwise", DType.FP32, num_bytes // 12, num_bytes), seconds
    )


def products() -> list[Measurement]:
    generator = np.random.default_rng(0)
    sizes = np.exp(generator.uniform(math.log(16), math.log(2048), size=(60, 3))).astype(int)
    return [product(int(m), int(n), int(k)) for m, n, k in sizes]


def additions() -> list[Measurement]:
    return [addition(int(b), LATENCY + b / BANDWIDTH) for b in np.geomspace(100, 60e6, 30)]


@cache
def profile(lines: tuple[Line, ...] | None = None) -> DeviceProfile:
    return DeviceProfile(
        device="cpu", processor="Made Up", num_threads=2, num_cores=2, memory_bytes=2**34, cache_bytes=2**25,
        peak_flops_per_second={"fp32": 200e9, "fp64": 100e9}, memory_bytes_per_second=100e9,
        dram_bytes_per_second=20e9, launch_seconds=2e-6, host_seconds=3e-6, optimizer_host_seconds=1e-6,
        torch_version="2.13.0", measured_at="2026-01-01T00:00:00+00:00",
        lines=fit_lines([*products(), *additions()]).lines if lines is None else lines,
    )  # fmt: skip


def operation(
    num_elements: int, name: str = "add", kind: OperationKind = OperationKind.ELEMENTWISE
) -> Operation:
    type_ = TensorType((num_elements,), DType.FP32, (1,))
    return Operation(
        kind, name, (type_, type_), (type_,), DType.FP32, num_elements, num_elements, 12 * num_elements
    )


class TestFit:
    def test_known_lines_are_recovered_within_two_percent(self) -> None:
        for measurements in (products(), additions()):
            line = fit_line(measurements[0].features.family, "fp32", measurements)
            ratios = [line_seconds(line, m.features)[0] / m.seconds for m in measurements]
            assert min(ratios) > 0.98
            assert max(ratios) < 1.02
            assert line.r_squared > 0.999
            assert line.mape < 0.02

    def test_latency_and_bandwidth_are_those_of_the_machine(self) -> None:
        line = fit_line("elementwise", "fp32", additions())
        assert line.latency_seconds == pytest.approx(LATENCY, rel=0.02)
        largest = Features("elementwise", DType.FP32, 5_000_000, 60_000_000)
        assert line_seconds(line, largest)[0] == pytest.approx(LATENCY + 60e6 / BANDWIDTH, rel=0.02)

    def test_outliers_do_not_move_the_fit(self) -> None:
        measurements = additions()
        for index in (3, 11, 19):
            measurements[index] = replace(measurements[index], seconds=50 * measurements[index].seconds)
        line = fit_line("elementwise", "fp32", measurements)
        for m in additions():
            assert line_seconds(line, m.features)[0] == pytest.approx(m.seconds, rel=0.25)

    def test_a_negative_slope_is_refused(self) -> None:
        falling = [addition(int(b), 1e-3 / b) for b in np.geomspace(100, 1e6, 12)]
        with pytest.raises(CalibrationError, match="time falls with work"):
            fit_line("elementwise", "fp32", falling)

    def test_a_family_that_makes_no_line_is_named_and_the_rest_is_fitted(self) -> None:
        falling = [addition(int(b), 1e-3 / b) for b in np.geomspace(100, 1e6, 12)]
        fits = fit_lines([*products(), *falling])
        assert [line.family for line in fits.lines] == ["matmul_nn"]
        assert [(r.family, r.dtype, r.count) for r in fits.refused] == [("elementwise", "fp32", 12)]
        made = replace(profile(fits.lines), refused=fits.refused)
        assert DeviceProfile.from_json(made.to_json()) == made
        estimates = LinearCost(made).estimate([operation(1000)], local_device(made))
        assert estimates.provenance == ("bounded",)

    def test_what_a_line_misses_by_widens_its_interval(self) -> None:
        generator = np.random.default_rng(1)
        noisy = [replace(m, seconds=m.seconds * generator.lognormal(0, 0.6)) for m in additions()]
        line, exact = fit_line("elementwise", "fp32", noisy), fit_line("elementwise", "fp32", additions())
        assert (line.quality, exact.quality) == ("doubtful", "good")
        assert line.spread >= 1 + 2.06 * line.mape
        made = [profile((each,)) for each in (line, exact)]
        wide, narrow = (LinearCost(p).estimate([operation(10**6)], local_device(p)) for p in made)
        assert wide.seconds_high[0] / wide.seconds[0] > narrow.seconds_high[0] / narrow.seconds[0]

    def test_a_time_that_is_not_positive_is_refused(self) -> None:
        with pytest.raises(CalibrationError, match="cannot be"):
            fit_lines([*additions(), addition(64, 0.0)])

    def test_the_order_of_measurements_does_not_matter(self) -> None:
        assert fit_lines(additions()) == fit_lines(additions()[::-1])

    def test_a_family_with_too_few_measurements_has_no_line(self) -> None:
        assert fit_lines(additions()[:3]) == Fits(())


class TestEstimate:
    def test_is_never_faster_than_the_roofline(self) -> None:
        model = LinearCost(profile())
        operations = [operation(n) for n in (1, 1000, 10**6, 10**9)]
        device = local_device(model.profile)
        estimates = model.estimate(operations, device)
        assert (estimates.seconds >= roofline_seconds(operations, device)).all()
        assert (estimates.seconds_low == roofline_seconds(operations, device)).all()
        assert (estimates.seconds_low < estimates.seconds_high).all()

    def test_more_work_never_takes_less_time(self) -> None:
        model = LinearCost(profile())
        seconds = model.estimate(
            [operation(n) for n in range(1, 10**7, 99_991)], local_device(model.profile)
        ).seconds
        assert (np.diff(seconds) >= 0).all()

    def test_the_program_around_a_kernel_is_added(self) -> None:
        model = LinearCost(profile())
        line = next(line for line in model.profile.lines if line.family == "elementwise")
        features = Features("elementwise", DType.FP32, 1000, 12000)
        expected = line_seconds(line, features)[0] + model.profile.host_seconds
        assert model.estimate([operation(1000)], local_device(model.profile)).seconds[0] == pytest.approx(
            expected
        )

    def test_a_family_that_was_not_calibrated_is_a_wide_bound(self) -> None:
        model = LinearCost(profile())
        device = local_device(model.profile)
        estimates = model.estimate([operation(10**6, "sort", OperationKind.SORT), operation(10**6)], device)
        assert estimates.provenance == ("bounded", "interpolated")
        assert estimates.seconds[0] >= 12e6 / model.profile.dram_bytes_per_second
        widths = estimates.seconds_high / estimates.seconds
        assert widths[0] == pytest.approx(10)
        assert widths[1] < 10

    def test_beyond_the_measured_sizes_it_says_extrapolated(self) -> None:
        model = LinearCost(profile())
        estimates = model.estimate([operation(10**8)], local_device(model.profile))
        assert estimates.provenance == ("extrapolated",)

    def test_an_allocation_takes_no_time(self) -> None:
        model = LinearCost(profile())
        free = operation(10**6, "empty", OperationKind.ALLOCATION)
        estimates = model.estimate([free], local_device(model.profile))
        assert (estimates.seconds[0], estimates.bound_by[0]) == (0.0, "nothing")


class TestFamilies:
    @pytest.mark.parametrize(
        ("name", "kind", "family"),
        [
            ("add", OperationKind.ELEMENTWISE, "elementwise"),
            ("lerp_", OperationKind.ELEMENTWISE, "update"),
            ("silu_backward", OperationKind.ELEMENTWISE, "transcendental"),
            ("sqrt", OperationKind.ELEMENTWISE, "division"),
            ("_safe_softmax", OperationKind.SOFTMAX, "safe_softmax"),
            ("_embedding_bag_dense_backward", OperationKind.EMBEDDING, "embedding_bag_backward"),
            ("_index_put_impl_", OperationKind.INDEXING, "indexing_backward"),
            ("first_touch", OperationKind.FILL, "first_touch"),
        ],
    )
    def test_operators_fall_into_the_family_whose_kernel_they_share(
        self, name: str, kind: OperationKind, family: str
    ) -> None:
        assert family_of(operation(8, name, kind)) == family

    def test_a_transposed_operand_makes_another_copy(self) -> None:
        dense, scattered = (
            TensorType((64, 32), DType.FP32, (32, 1)),
            TensorType((64, 32), DType.FP32, (1, 64)),
        )
        families = [
            family_of(Operation(OperationKind.COPY, "clone", (source,), (dense,), DType.FP32, 0, 0, 16384))
            for source in (dense, scattered)
        ]
        assert families == ["copy", "copy_strided"]


class TestProfile:
    def test_round_trip_keeps_everything(self) -> None:
        before = profile()
        assert DeviceProfile.from_json(before.to_json()) == before

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("lines", []),
            ("memory_bytes_per_second", -1),
            ("peak_flops_per_second", {}),
            ("schema", 0),
            ("host_seconds", None),
        ],
    )
    def test_a_broken_file_says_what_is_wrong(self, key: str, value: object) -> None:
        with pytest.raises(CalibrationError, match=r"perfcast calibrate|must map"):
            DeviceProfile.from_json({**profile().to_json(), key: value})

    def test_a_missing_key_is_named(self) -> None:
        data = profile().to_json()
        del data["processor"]
        with pytest.raises(CalibrationError, match="'processor' is missing"):
            DeviceProfile.from_json(data)

    def test_a_machine_that_was_not_calibrated_is_told_how(
        self, tmp_path: object, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PERFCAST_DATA_DIR", str(tmp_path))
        with pytest.raises(CalibrationError, match="run `perfcast calibrate`"):
            load_local_profile()
        with pytest.raises(CalibrationError, match="not calibrated"):
            load_profile_of("h100_sxm")
