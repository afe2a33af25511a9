"""Physics of mixtures of experts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_up_kernels import figures_of
from perfcast.core.kernel import KernelFamily, KernelTable, build_kernel_table
from perfcast.cost.learned.families import experts
from perfcast.cost.learned.figures import Figures

FORMATS = st.sampled_from(sorted(experts.FORMATS))
FRAMEWORKS = st.sampled_from(["sglang", "trtllm", "vllm", "aiter", "other"])
OPERATIONS = st.sampled_from(["moe", "moe_ungated", "moe_cold", "moe_ungated_cold"])
LAWS = st.sampled_from(["balanced", "power_law_1.2"])


def calls(**changes: object) -> KernelTable:
    columns: dict[str, object] = {
        "num_tokens": 64, "hidden_size": 2048, "inter_size": 768, "experts_per_token": 8, "num_experts": 128,
        "tensor_parallel": 1, "expert_parallel": 1, "operation": "moe", "distribution": "balanced",
        "dtype": "bf16", "framework": "trtllm",
    }  # fmt: skip
    columns |= changes
    rows = max(np.size(value) for value in columns.values())
    return build_kernel_table(KernelFamily.EXPERTS, rows, **columns)


def seconds(figures: Figures | None = None, **changes: object) -> np.ndarray:
    table = calls(**changes)
    return experts.describe(table, figures or figures_of(len(table))).seconds


def test_every_touched_expert_is_read_once() -> None:
    # 64 tokens · 8 = 512 rows touch all 128 experts; each 3 · 2048 · 768 elements of 2 bytes
    assert experts.count_work(calls()).weight_bytes[0] == 128 * 3 * 2048 * 768 * 2


def test_one_token_reads_as_many_experts_as_it_asks_for() -> None:
    assert experts.count_work(calls(num_tokens=1)).weight_bytes[0] == 8 * 3 * 2048 * 768 * 2


def test_a_rank_reads_its_part_of_its_experts() -> None:
    work = experts.count_work(calls(tensor_parallel=2, expert_parallel=4))
    assert work.weight_bytes[0] == 32 * 3 * 2048 * 384 * 2


def test_experts_without_a_gate_have_two_matrices() -> None:
    assert experts.count_work(calls(operation="moe_ungated")).weight_bytes[0] == 128 * 2 * 2048 * 768 * 2


def test_block_scales_are_read_with_the_weights() -> None:
    # nvfp4: 4 bits each and 8 more for every 16
    work = experts.count_work(calls(dtype="nvfp4"))
    assert work.weight_bytes[0] == 128 * 3 * 2048 * 768 * (4 + 8 / 16) / 8


def test_flops_are_those_of_the_rows() -> None:
    assert experts.count_work(calls()).flops[0] == 2 * 512 * 3 * 2048 * 768


def test_sglang_runs_the_remote_slots_of_a_token_too() -> None:
    # 64 tokens · 8 slots, 64 experts a rank: half of the slots are here, every token has some
    table = calls(framework=np.array(["sglang", "trtllm"], dtype=object), expert_parallel=2)
    assert experts.count_work(table).slots.tolist() == [512, 256]


def test_weights_that_fit_the_cache_are_not_read_again() -> None:
    warm, cold = seconds(operation=np.array(["moe", "moe_cold"], dtype=object), num_tokens=1, inter_size=256)
    assert cold > warm


def test_widened_weights_do_not_gain_from_wider_units() -> None:
    bf16, int4 = [
        seconds(figures_of(matrix_flops_per_second=8e15), num_tokens=16384, dtype=dtype)[0]
        for dtype in ("bf16", "int4_wo")
    ]
    assert int4 > 1.5 * bf16


def test_next_to_no_work_takes_the_floor() -> None:
    small = seconds(num_tokens=1, experts_per_token=1, hidden_size=128, inter_size=128)[0]
    assert experts.FLOOR_SECONDS < small < 1.2 * experts.FLOOR_SECONDS


@given(
    tokens=st.integers(1, 20_000),
    dtype=FORMATS,
    framework=FRAMEWORKS,
    operation=OPERATIONS,
    law=LAWS,
    ranks=st.sampled_from([1, 4, 32]),
    bandwidth=st.floats(2e11, 2e13),
    peak=st.floats(1e13, 2e16),
)
def test_physics_is_finite_and_no_faster_than_the_roofline(
    tokens: int,
    dtype: str,
    framework: str,
    operation: str,
    law: str,
    ranks: int,
    bandwidth: float,
    peak: float,
) -> None:
    table = calls(
        num_tokens=tokens, dtype=dtype, framework=framework, operation=operation, distribution=law,
        expert_parallel=ranks,
    )  # fmt: skip
    figures = figures_of(memory_bytes_per_second=bandwidth, matrix_flops_per_second=peak)
    physics = experts.describe(table, figures)
    assert np.all(np.isfinite(physics.features))
    assert physics.features.shape == (1, len(experts.feature_names))
    assert physics.seconds[0] > 0
    assert physics.seconds[0] >= max(physics.compute_seconds[0], physics.memory_seconds[0])


@given(dtype=FORMATS, framework=FRAMEWORKS, operation=OPERATIONS, ranks=st.sampled_from([1, 2, 16, 128]))
def test_more_tokens_never_take_less(dtype: str, framework: str, operation: str, ranks: int) -> None:
    tokens = np.array([1.0, 2, 3, 7, 8, 15, 16, 17, 32, 100, 128, 500, 2048, 16384, 65536])
    taken = seconds(
        num_tokens=tokens, dtype=dtype, framework=framework, operation=operation, expert_parallel=ranks
    )
    assert np.all(np.diff(taken) >= -1e-12 * taken[1:])


@given(ranks=st.sampled_from([1, 2, 8, 32]), framework=FRAMEWORKS)
def test_doubled_tokens_never_take_less_when_routing_is_skewed(ranks: int, framework: str) -> None:
    tokens = 2.0 ** np.arange(17)
    taken = seconds(
        num_tokens=tokens, distribution="power_law_1.2", expert_parallel=ranks, framework=framework
    )
    assert np.all(np.diff(taken) >= -0.02 * taken[1:])


@given(dtype=FORMATS, framework=FRAMEWORKS, operation=OPERATIONS, tokens=st.integers(1, 20_000), law=LAWS)
def test_wider_experts_never_take_less(
    dtype: str, framework: str, operation: str, tokens: int, law: str
) -> None:
    width = np.array([64.0, 128, 129, 256, 512, 704, 1024, 4096, 16384])
    taken = seconds(
        num_tokens=tokens, inter_size=width, dtype=dtype, framework=framework, operation=operation,
        distribution=law,
    )  # fmt: skip
    assert np.all(np.diff(taken) >= -1e-12 * taken[1:])


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown format fp3"):
        seconds(dtype="fp3")


def test_an_unknown_operation_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown operation gemm"):
        seconds(operation="gemm")
