"""Physics of linear attention and state-space kernels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_up_kernels import figures_of
from perfcast.core.kernel import KernelFamily, KernelTable, build_kernel_table
from perfcast.cost.learned.families import scan

OPERATIONS = st.sampled_from(sorted(scan.OPERATIONS))
FRAMEWORKS = st.sampled_from(["sglang", "trtllm", "vllm", "other"])


def calls(**changes: object) -> KernelTable:
    columns: dict[str, object] = {
        "batch": 1, "sequence_length": 4096, "model_size": 2048, "conv_size": 4, "num_key_heads": 16,
        "key_head_size": 128, "num_value_heads": 32, "value_head_size": 128, "state_size": 128,
        "num_groups": 16, "chunk_size": 0, "operation": "chunk_gated_delta_rule", "phase": "context",
        "dtype": "bf16", "framework": "sglang",
    }  # fmt: skip
    columns |= changes
    rows = max(np.size(value) for value in columns.values())
    return build_kernel_table(KernelFamily.SCAN, rows, **columns)


def seconds(**changes: object) -> np.ndarray:
    table = calls(**changes)
    return scan.describe(table, figures_of(len(table))).seconds


def test_a_convolution_reads_and_writes_query_key_and_value() -> None:
    work = scan.count_work(calls(operation="causal_conv1d_fn"))
    assert work.channels[0] == 2 * 16 * 128 + 32 * 128
    assert work.stream_bytes[0] == 4096 * 8192 * 2 * 2
    assert work.flops[0] == 0


def test_a_chunked_kernel_writes_values_only() -> None:
    assert scan.count_work(calls()).stream_bytes[0] == 4096 * (8192 + 32 * 128) * 2


def test_a_recurrent_step_keeps_a_matrix_in_fp32_for_each_head_and_sequence() -> None:
    work = scan.count_work(calls(operation="fused_recurrent_gated_delta_rule", batch=8, sequence_length=1))
    assert work.state_bytes[0] == 8 * 32 * 128 * 128 * 4


def test_the_state_is_updated_and_read_once_for_every_token() -> None:
    assert scan.count_work(calls()).flops[0] == 4 * 4096 * 32 * 128 * 128


def test_one_token_more_than_a_chunk_is_one_step_more() -> None:
    lengths = np.array([64.0, 65, 128])
    assert scan.count_work(calls(sequence_length=lengths)).chunks.tolist() == [1, 2, 2]
    assert scan.count_work(calls(sequence_length=lengths, chunk_size=128)).chunks.tolist() == [1, 1, 1]


def test_chunks_of_one_sequence_come_one_after_the_other() -> None:
    # 4 lanes leave 128 multiprocessors idle: a second sequence is nearly free, twice the length is not
    one, two, long = seconds(
        batch=np.array([1.0, 2, 1]),
        sequence_length=np.array([4096.0, 4096, 8192]),
        num_value_heads=4,
        num_key_heads=1,
    )
    assert two < 1.2 * one
    assert long > 1.7 * one


def test_blocks_of_single_channels_cost_much_on_short_sequences() -> None:
    by_tile, by_channel = seconds(
        operation="causal_conv1d_fn", batch=64, sequence_length=16,
        framework=np.array(["sglang", "trtllm"], dtype=object),
    )  # fmt: skip
    assert by_channel > 5 * by_tile


def test_a_decode_step_on_few_states_takes_the_floor() -> None:
    taken = seconds(
        operation="fused_recurrent_gated_delta_rule", sequence_length=1, num_value_heads=1, num_key_heads=1
    )
    assert taken[0] == pytest.approx(scan.RECURRENT.floor_seconds, rel=0.1)


@given(
    operation=OPERATIONS,
    framework=FRAMEWORKS,
    batch=st.integers(1, 1024),
    length=st.integers(1, 40_000),
    bandwidth=st.floats(2e11, 2e13),
    peak=st.floats(1e13, 2e16),
)
def test_physics_is_finite_and_no_faster_than_the_roofline(
    operation: str, framework: str, batch: int, length: int, bandwidth: float, peak: float
) -> None:
    table = calls(operation=operation, framework=framework, batch=batch, sequence_length=length)
    physics = scan.describe(
        table, figures_of(memory_bytes_per_second=bandwidth, matrix_flops_per_second=peak)
    )
    assert np.all(np.isfinite(physics.features))
    assert physics.features.shape == (1, len(scan.feature_names))
    assert physics.seconds[0] > 0
    assert physics.seconds[0] >= max(physics.compute_seconds[0], physics.memory_seconds[0])


@given(operation=OPERATIONS, framework=FRAMEWORKS, batch=st.sampled_from([1, 16, 512]))
def test_longer_sequences_never_take_less(operation: str, framework: str, batch: int) -> None:
    lengths = np.array([1.0, 2, 63, 64, 65, 128, 500, 1024, 1025, 4096, 32768])
    taken = seconds(operation=operation, framework=framework, batch=batch, sequence_length=lengths)
    assert np.all(np.diff(taken) >= -1e-12 * taken[1:])


@given(operation=OPERATIONS, framework=FRAMEWORKS, length=st.sampled_from([1, 64, 8192]))
def test_more_sequences_never_take_less(operation: str, framework: str, length: int) -> None:
    batches = np.array([1.0, 2, 3, 8, 33, 128, 1000, 4096])
    taken = seconds(operation=operation, framework=framework, batch=batches, sequence_length=length)
    assert np.all(np.diff(taken) >= -1e-12 * taken[1:])


def test_an_unknown_operation_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown operation wkv"):
        seconds(operation="wkv")
