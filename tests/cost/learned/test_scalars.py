from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import made_up_device
from made_up_kernels import products
from perfcast.core.kernel import KernelFamily, KernelTable, build_kernel_table
from perfcast.core.machine.hardware import Device
from perfcast.cost.learned.family import Physics
from perfcast.cost.learned.scalars import (
    DeviceScalars,
    coarser,
    fit_scalars,
    index_segments,
    regime_shares,
    scalar_offsets,
    solve_scalars,
)
from perfcast.cost.learned.sustained import sustained_share

SEGMENT = ("linear", "bf16", "sglang")
COMPUTING = np.array([0.001, 0.998, 0.001])


def device(name: str, architecture: str = "ampere", capability: str = "8.0") -> Device:
    return made_up_device(name=name, architecture=architecture, compute_capability=capability)


def scalars(values: dict[tuple[str, tuple[str, ...]], list[float]], **changes: object) -> DeviceScalars:
    architectures = {
        "a": ("nvidia", "ampere", "8.0"), "b": ("nvidia", "hopper", "9.0"), "c": ("nvidia", "volta", "7.0"),
        "mi": ("amd", "cdna2", ""),
    }  # fmt: skip
    built = {key: np.array(value) for key, value in values.items()}
    return DeviceScalars(built, architectures, np.full(3, 0.2), **changes)


def physics(seconds: float, compute: float, memory: float) -> Physics:
    return Physics(np.array([seconds]), np.array([compute]), np.array([memory]), np.zeros((1, 0)))


def fit(residual: np.ndarray, shares: np.ndarray, **changes: object) -> DeviceScalars:
    usual: dict[str, object] = {
        "device_index": np.zeros(len(residual), np.int64), "devices": [device("a")],
        "segments": [SEGMENT], "segment_index": np.zeros(len(residual), np.int64),
    }  # fmt: skip
    return fit_scalars(residual, shares, **(usual | changes))


# ---- shares ------------------------------------------------------------------------------------------


def test_overhead_is_what_no_roofline_term_explains():
    assert regime_shares(physics(10, 4, 2))[0] == pytest.approx([6 / 12, 4 / 12, 2 / 12])


def test_a_kernel_at_its_roofline_has_next_to_no_overhead():
    assert regime_shares(physics(4, 4, 0))[0] == pytest.approx([0, 1, 0], abs=0.002)


@given(seconds=st.floats(1e-6, 1.0), compute=st.floats(0, 1), memory=st.floats(0, 1))
def test_shares_of_the_regimes_sum_to_one(seconds, compute, memory):
    found = regime_shares(physics(seconds, compute * seconds, memory * seconds))
    assert found.sum() == pytest.approx(1)
    assert (found >= 0).all()


# ---- segments ----------------------------------------------------------------------------------------


def test_a_segment_is_an_operation_in_a_format_by_a_framework():
    dtypes = np.array(["bf16", "fp8", "bf16"], dtype=object)
    segments, index = index_segments(products(3, dtype=dtypes))
    assert segments == [("linear", "bf16", "sglang"), ("linear", "fp8", "sglang")]
    assert index.tolist() == [0, 1, 0]


def test_attention_s_format_names_its_cache_s_too():
    kernels = build_kernel_table(
        KernelFamily.ATTENTION, 1, batch=1, num_queries=1, num_keys=1, num_heads=1, num_kv_heads=1,
        head_size=64, value_head_size=64, window=0, causal=0, operation="generation", dtype="bf16",
        kv_dtype="fp8", framework="vllm",
    )  # fmt: skip
    assert index_segments(kernels)[0] == [("generation", "bf16/fp8", "vllm")]


def test_no_kernels_have_no_segments():
    none: KernelTable = products(1).take(np.zeros(0, np.int64))
    assert index_segments(none)[0] == []


def test_coarser_levels_go_from_the_segment_itself_to_everything():
    levels = coarser(SEGMENT)
    assert levels[0] == SEGMENT
    assert levels[1] == ("linear", "bf16")
    assert levels[-1] == ()
    assert len(set(levels)) == len(levels)


# ---- fitting -----------------------------------------------------------------------------------------


def test_a_device_exactly_twice_as_slow_in_computing_gets_log_2_there_and_nothing_elsewhere():
    shares = np.random.default_rng(0).dirichlet([1, 1, 1], 4000)
    found = fit(np.log(2) * shares[:, 1], shares)
    assert found.values["a", SEGMENT] == pytest.approx([0, np.log(2), 0], abs=0.03)


def test_many_measurements_outweigh_the_prior_and_few_do_not():
    many, few = (fit(np.full(n, 0.7), np.tile(COMPUTING, (n, 1))) for n in (3000, 1))
    assert many.values["a", SEGMENT][1] == pytest.approx(0.7, abs=0.06)
    assert 0 < few.values["a", SEGMENT][1] < 0.1


def test_one_measurement_in_ten_that_is_off_does_not_move_the_rest():
    residual = np.where(np.arange(2000) % 10 == 0, 5.0, 0.3)
    found = fit(residual, np.tile(COMPUTING, (2000, 1)))
    assert found.values["a", SEGMENT][1] == pytest.approx(0.3, abs=0.05)


def test_each_device_is_fitted_to_its_own_rows_at_every_level():
    residual = np.repeat([0.5, -0.2], 2000)
    found = fit(
        residual, np.tile(COMPUTING, (4000, 1)), device_index=np.repeat([0, 1], 2000),
        devices=[device("a"), device("b", "hopper", "9.0")],
    )  # fmt: skip
    for level in coarser(SEGMENT):
        assert found.values["a", level][1] == pytest.approx(0.5, abs=0.05)
        assert found.values["b", level][1] == pytest.approx(-0.2, abs=0.05)
    assert found.architectures["b"] == ("nvidia", "hopper", "9.0")
    assert found.spread[1] == pytest.approx(0.35, abs=0.05)


def test_a_device_without_rows_has_no_scalars():
    found = fit(np.full(9, 0.5), np.tile(COMPUTING, (9, 1)), devices=[device("a"), device("b")])
    assert {name for name, _ in found.values} == {"a"}


# ---- solving -----------------------------------------------------------------------------------------


def test_without_measurements_the_prior_stays():
    prior = np.array([0.1, -0.2, 0.3])
    assert solve_scalars(np.zeros(0), np.zeros((0, 3)), prior, np.full(3, 2.0)) == pytest.approx(prior)


@given(residual=st.floats(-1, 1), prior=st.floats(-0.5, 0.5), count=st.integers(1, 40))
def test_measurements_move_the_prior_toward_them_and_never_beyond(residual, prior, count):
    start = np.full(3, prior)
    moved = solve_scalars(
        np.full(count, residual), np.tile([0.0, 1.0, 0.0], (count, 1)), start, np.full(3, 1.0)
    )
    low, high = sorted((prior, residual))
    assert low - 1e-9 <= moved[1] <= high + 1e-9
    assert moved[[0, 2]] == pytest.approx(start[[0, 2]])


def test_more_measurements_move_it_further():
    def moved(count: int) -> float:
        shares = np.tile([0.0, 1.0, 0.0], (count, 1))
        return float(solve_scalars(np.full(count, 0.5), shares, np.zeros(3), np.full(3, 1.0))[1])

    assert 0 < moved(1) < moved(10) < moved(100) <= 0.5


def test_one_measurement_halves_the_way_where_its_noise_equals_the_spread():
    # within the robust range: argmin (0.04 - s)² + s²
    found = solve_scalars(np.array([0.04]), np.array([[0.0, 1.0, 0.0]]), np.zeros(3), np.ones(3))
    assert found[1] == pytest.approx(0.02)


def test_the_solution_is_the_least_of_what_the_formula_says():
    draw = np.random.default_rng(1)
    shares, residual = draw.dirichlet([1, 1, 1], 60), draw.normal(0.5, 1.0, 60)
    prior, ridge = np.array([0.2, 0.0, -0.1]), np.full(3, 0.8)

    def loss(s: np.ndarray) -> float:
        return float(np.abs(residual - shares @ s).sum() + 10 * (ridge * (s - prior) ** 2).sum())

    found = solve_scalars(residual, shares, prior, ridge)
    assert all(loss(found) <= loss(found + 0.2 * step) for step in (*np.eye(3), *-np.eye(3)))


# ---- looking up --------------------------------------------------------------------------------------


def test_a_coarser_level_stands_in_for_a_segment_never_measured():
    found = scalars({("a", ("linear", "bf16")): [0.1] * 3, ("a", ()): [0.9] * 3})
    assert found.known(device("a"), ("linear", "bf16", "elsewhere")) == pytest.approx([0.1] * 3)
    assert found.known(device("a"), ("conv", "fp8", "vllm")) == pytest.approx([0.9] * 3)
    assert found.known(device("elsewhere"), SEGMENT) is None


def test_an_unseen_device_takes_trust_times_the_mean():
    measured = {("b", SEGMENT): [0.0, 0.4, 0.0], ("c", SEGMENT): [0.0, 0.2, 0.0]}
    stranger = device("new", "turing", "7.5")
    assert scalars(measured).expected(stranger, SEGMENT)[1] == pytest.approx(0.3)
    half = scalars(measured, trust={"nvidia|linear|bf16": 0.5})
    assert half.expected(stranger, SEGMENT)[1] == pytest.approx(0.15)


def test_an_unseen_device_of_a_known_architecture_leans_to_it_in_full_trust():
    measured = {("a", SEGMENT): [0.0, 0.8, 0.0], ("b", SEGMENT): [0.0, 0.0, 0.0]}
    found = scalars(measured, trust={"nvidia|linear|bf16": 0.0})
    assert found.expected(device("new"), SEGMENT)[1] == pytest.approx(0.8 * 7 / 8)
    assert found.expected(device("new", capability="8.6"), SEGMENT)[1] == pytest.approx(0.8 * 7 / 8)
    assert found.expected(device("new", "turing", "7.5"), SEGMENT)[1] == 0


def test_architectures_count_alike_however_many_devices_they_have():
    measured = {(name, ()): [0.6, 0, 0] for name in ("a", "a2", "a3")} | {("b", ()): [0.0, 0, 0]}
    found = scalars(measured)
    found.architectures.update(dict.fromkeys(("a2", "a3"), ("nvidia", "ampere", "8.0")))
    assert found.expected(device("new", "turing", "7.5"), SEGMENT)[0] == pytest.approx(0.3)


def test_an_unseen_device_asks_those_of_its_own_vendor_and_others_only_if_there_are_none():
    measured = {("a", SEGMENT): [0.0, 0.4, 0.0], ("mi", SEGMENT): [0.0, -0.4, 0.0]}
    stranger = made_up_device(name="new", vendor="amd", architecture="cdna3", compute_capability="")
    assert scalars(measured).expected(stranger, SEGMENT)[1] == pytest.approx(-0.4)
    foreign = made_up_device(name="new", vendor="intel", architecture="xe", compute_capability="")
    assert scalars(measured).expected(foreign, SEGMENT)[1] == pytest.approx(0)


def test_sm_120_takes_the_scalars_of_ada_not_those_of_sm_100():
    """Nearest of its instructions 7, the rest of them 3, others 1: (7·0.4 + 3·0.1 − 0.5 − 0.3) / 12."""
    measured = {(name, SEGMENT): [0.0, value, 0.0] for name, value in
                {"ada": 0.4, "ampere": 0.1, "hopper": -0.5, "sm_100": -0.3}.items()}  # fmt: skip
    found = scalars(measured)
    found.architectures.update(
        ada=("nvidia", "ada", "8.9"), ampere=("nvidia", "ampere", "8.0"), hopper=("nvidia", "hopper", "9.0"),
        sm_100=("nvidia", "blackwell", "10.0"),
    )  # fmt: skip
    board = device("new", "blackwell", "12.0")
    assert found.expected(board, SEGMENT)[1] == pytest.approx((7 * 0.4 + 3 * 0.1 - 0.5 - 0.3) / 12)
    assert found.kin(board, SEGMENT) == "family"
    single = ("linear", "fp32", "pytorch")
    in_fp32 = replace(found, values={(name, single): value for (name, _), value in found.values.items()})
    assert in_fp32.expected(board, single)[1] == pytest.approx((0.4 + 0.1 - 0.5 - 0.3) / 4)
    assert in_fp32.kin(board, single) == "vendor"


def test_of_a_vendor_never_measured_the_measured_vendors_count_alike_however_many_chips_they_have():
    measured = {(name, SEGMENT): [0.0, value, 0.0] for name, value in {"a": 0.2, "b": 0.4, "mi": 0.5}.items()}
    foreign = made_up_device(name="new", vendor="intel", architecture="xe", compute_capability="")
    found = scalars(measured, trust={"none": 0.5, "family": 1.0, "intel|linear|bf16": 0.0})
    assert found.kin(foreign, SEGMENT) == "none"
    assert found.expected(foreign, SEGMENT)[1] == pytest.approx(0.5 * (0.3 + 0.5) / 2)


def test_relatives_that_are_not_of_the_very_architecture_are_trusted_as_leaving_out_chose():
    measured = {("a", SEGMENT): [0.0, 0.8, 0.0]}
    found = scalars(measured, trust={"family": 0.5})
    assert found.expected(device("new", "ada", "8.9"), SEGMENT)[1] == pytest.approx(0.4)
    assert found.expected(device("new", "ampere", "8.6"), SEGMENT)[1] == pytest.approx(0.8)


def test_an_untrained_model_expects_nothing():
    assert scalars({}).expected(device("new"), SEGMENT).tolist() == [0, 0, 0]


def test_offsets_weigh_a_device_s_scalars_by_the_kernel_s_shares():
    found = scalars({("a", SEGMENT): [0.4, 0.2, 0.1], ("a", ()): [0.0, 0.0, 0.0]})
    shares = np.array([[1.0, 0, 0], [0, 0.5, 0.5], [1.0, 0, 0]])
    offsets, own = scalar_offsets(
        found, shares, np.array([0, 0, 1]), [device("a"), device("new", "turing", "7.5")],
        [SEGMENT], np.zeros(3, np.int64),
    )  # fmt: skip
    assert offsets == pytest.approx([0.4, 0.15, 0.4])
    assert own.tolist() == [True, True, False]


def test_a_sibling_with_twice_the_sustained_share_gains_half_of_that_in_logarithms():
    sibling = device("new")
    here = sustained_share(sibling, True)
    known = scalars({("a", SEGMENT): [0.1, 0.3, 0.2]}, sustained={"a": (here / 2, here / 2)})
    expected = [0.1, 0.3 + 0.5 * np.log(2), 0.2]
    assert known.expected(sibling, SEGMENT) == pytest.approx(expected)


def test_a_format_measured_on_a_sibling_alone_is_not_mixed_from_the_device_s_other_formats():
    # An accelerator measured in fp8 by block alone; its sibling in bf16.
    own = {("a", ("linear", "fp8_block")): [0.5, 0.5, 0.0], ("a", ("linear",)): [0.5, 0.5, 0.0]}
    sibling = {("b", ("linear", "bf16")): [0.1, 0.1, 0.0]}
    segment = ("linear", "bf16", "vllm")
    assert scalars(own).known(device("a"), segment) == pytest.approx([0.5, 0.5, 0.0])
    both = replace(scalars(own | sibling), architectures=dict.fromkeys("ab", ("nvidia", "ampere", "8.0")))
    assert both.known(device("a"), segment) is None
    assert both.known(device("a"), ("linear", "fp8_block", "vllm")) == pytest.approx([0.5, 0.5, 0.0])


def test_a_sibling_with_power_to_spare_gains_all_that_the_law_says():
    sibling = replace(device("new"), max_clock_hertz=1.2 * device("new").clock_hertz)
    known = scalars({("a", SEGMENT): [0.1, 0.3, 0.2]}, sustained={"a": (0.5, 0.5)})
    assert known.expected(sibling, SEGMENT) == pytest.approx([0.1, 0.3, 0.2])


def test_the_shares_of_another_architecture_shift_nothing():
    known = scalars({("b", SEGMENT): [0.1, 0.3, 0.2]}, sustained={"b": (0.1, 0.1)})
    assert known.expected(device("new"), SEGMENT) == pytest.approx([0.1, 0.3, 0.2])
