"""Where the time of small recordings went, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfcast.core.operation import OperationKind
from perfcast.traces.collectives.sizes import canonical_name
from perfcast.traces.explain.breakdown import Breakdown, break_down
from perfcast.traces.explain.compare import compare_explanations, device_parts
from perfcast.traces.explain.imbalance import compare_ranks, share_collectives
from perfcast.traces.explain.kernel_kinds import kernel_kind, operator_kind
from perfcast.traces.explain.recordings import explain
from perfcast.traces.explain.work import analyse
from perfcast.traces.spans import gaps, overlap_seconds, total_seconds, union
from perfcast.units import MICRO
from recorded_traces import Recording, two_kernels


def breakdown_of(recording: Recording, folder: Path) -> Breakdown:
    return break_down(analyse(recording.read(folder)))


def test_the_parts_of_a_hand_made_step(tmp_path: Path):
    time = breakdown_of(two_kernels(), tmp_path).device_time
    # Kernels at 22-42 and 42-62 of 100: until the launch at 15 the host is waited for, then the launch.
    assert time.compute_seconds == pytest.approx(40 * MICRO)
    assert time.host_wait_seconds == pytest.approx((15 + 38) * MICRO)
    assert time.kernel_wait_seconds == pytest.approx(7 * MICRO)
    assert time.host_bound_share == pytest.approx(0.53)
    assert time.window_seconds == pytest.approx(100 * MICRO)


def test_communication_beside_computing_is_told_from_communication_alone(tmp_path: Path):
    recording = Recording()
    recording.step(1, 0, 100)
    for correlation, (name, start, duration, stream) in enumerate(
        (("gemm", 10, 40, 7), ("ncclDevKernel_AllReduce_Sum_f32", 30, 50, 20), ("gemm", 85, 5, 7)), 1
    ):
        recording.call("cudaLaunchKernel", start - 5, 2, correlation)
        recording.kernel(name, start, duration, correlation, stream=stream)
    time = breakdown_of(recording, tmp_path).device_time
    assert time.communication_seconds == pytest.approx(50 * MICRO)
    assert time.overlap_seconds == pytest.approx(20 * MICRO)
    assert time.exposed_communication_seconds == pytest.approx(30 * MICRO)
    assert time.busy_seconds + time.idle_seconds == pytest.approx(100 * MICRO)


def test_a_long_wait_after_its_launch_has_another_cause(tmp_path: Path):
    recording = Recording()
    recording.step(1, 0, 100)
    recording.call("cudaLaunchKernel", 10, 2, 1)
    recording.kernel("gemm", 70, 10, 1)
    time = breakdown_of(recording, tmp_path).device_time
    assert time.other_wait_seconds == pytest.approx(60 * MICRO)


def test_work_has_kinds_phases_modules_and_ranges(tmp_path: Path):
    recording = Recording()
    recording.step(1, 0, 100)
    recording.module("Net_0", 0, 40)
    recording.module("Linear_0", 5, 20)
    recording.mark("## forward ##", 0, 40)
    recording.operator("aten::addmm", 10, 10)
    recording.call("cudaLaunchKernel", 12, 2, 1)
    recording.kernel("sm80_xmma_gemm_f16f16", 20, 10, 1)
    recording.operator("autograd::engine::evaluate_function: AddmmBackward0", 50, 20)
    recording.operator("aten::mm", 52, 10)
    recording.call("cudaLaunchKernel", 54, 2, 2)
    recording.kernel("sm80_xmma_gemm_f16f16", 60, 20, 2)
    recording.mark("Optimizer.step#SGD.step", 80, 15)
    recording.operator("aten::_foreach_add_", 82, 10)
    recording.call("cudaLaunchKernel", 84, 2, 3)
    recording.kernel("multi_tensor_apply_kernel", 88, 5, 3)
    own = breakdown_of(recording, tmp_path)

    def shown(shares):
        return {share.label: round(share.seconds / MICRO) for share in shares}

    assert shown(own.kinds) == {"matmul": 30, "optimizer": 5}
    assert shown(own.phases) == {"backward": 20, "forward": 10, "optimizer": 5}
    assert shown(own.modules) == {"": 25, "Net_0.Linear_0": 10}
    assert shown(own.ranges) == {"## forward ##": 10, "Optimizer.step#SGD.step": 5, "": 20}
    assert shown(own.operators) == {"aten::mm": 20, "aten::addmm": 10, "aten::_foreach_add_": 5}


def test_a_processors_operators_count_without_those_inside_them(tmp_path: Path):
    recording = Recording()
    recording.step(1, 0, 100)
    recording.operator("aten::linear", 10, 50)
    recording.operator("aten::addmm", 20, 30)
    recording.operator("aten::resolve_conj", 21, 0.4)  # as PyTorch's products call it, before they compute
    own = breakdown_of(recording, tmp_path)
    assert not own.on_device
    assert {s.label: round(s.seconds / MICRO) for s in own.operators} == {
        "aten::addmm": 30,
        "aten::linear": 20,
        "aten::resolve_conj": 0,
    }
    assert own.device_time.compute_seconds == pytest.approx(50 * MICRO)
    assert own.device_time.host_wait_seconds == pytest.approx(50 * MICRO)


def test_autograds_own_nodes_compute_only_in_what_they_call(tmp_path: Path):
    recording = Recording()
    recording.step(1, 0, 100)
    recording.operator("autograd::engine::evaluate_function: MmBackward0", 10, 60)
    recording.operator("MmBackward0", 11, 50)
    recording.operator("aten::mm", 20, 30)
    own = breakdown_of(recording, tmp_path)
    assert own.device_time.compute_seconds == pytest.approx(30 * MICRO)


def functional_reduce(rank: int) -> Recording:
    """A distributed tensor's 'add' that waits for an all-reduce before it adds."""
    recording = Recording(rank, world_size=2)
    recording.step(1, 0, 1000)
    recording.operator("aten::mm", 0, 100)
    recording.operator("_c10d_functional::all_reduce", 100, 30)
    recording.operator("c10d::allreduce_", 110, 15)
    recording.mark("gloo:all_reduce", 120, 480, thread=2)
    recording.operator("aten::add", 200, 800)
    recording.operator("_c10d_functional::wait_tensor", 210, 400)
    recording.operator("aten::add", 620, 380)
    return recording


def test_waiting_for_a_collective_within_an_operator_is_no_computing(tmp_path: Path):
    own = breakdown_of(functional_reduce(0), tmp_path)
    assert own.device_time.compute_seconds == pytest.approx((100 + 10 + 390) * MICRO)
    assert {kind.label: kind.seconds / MICRO for kind in own.kinds}["collective"] == pytest.approx(430)


def test_a_backward_of_the_programs_own_that_communicates_is_a_collective(tmp_path: Path):
    recording = Recording(world_size=2)
    recording.step(1, 0, 1000)
    recording.operator("autograd::engine::evaluate_function: A2ABackward", 0, 1000)
    recording.operator("c10d::alltoall_base_", 100, 20)
    recording.mark("gloo:all_to_all", 110, 790, thread=2)
    assert [kind.label for kind in breakdown_of(recording, tmp_path).kinds] == ["collective"]


def all_reduces(rank: int, starts: list[int], ends: list[int]) -> Recording:
    recording = Recording(rank, 2)
    recording.step(1, 0, 1000)
    for index, (start, end) in enumerate(zip(starts, ends, strict=True), 1):
        recording.operator("c10d::allreduce_", start - 8, 6)
        recording.call("cudaLaunchKernel", start - 6, 2, index)
        recording.kernel(
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL", start, end - start, index, stream=20,
            **{
                "Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000,
                "dtype": "Float", "Group size": 2, "Process Group Name": "0", "Process Group Ranks": "[0, 1]",
            },
        )  # fmt: skip
    return recording


def test_what_a_rank_waits_in_collectives_is_told_from_the_transfer(tmp_path: Path):
    traces = [
        all_reduces(0, [100, 300], [200, 320]).read(tmp_path),
        all_reduces(1, [190, 290], [200, 320]).read(tmp_path),
    ]
    breakdowns = [break_down(analyse(trace)) for trace in traces]
    imbalance = compare_ranks(breakdowns)
    assert imbalance.num_matched == 2
    assert [load.num_last for load in imbalance.ranks] == [1, 1]
    assert [load.communication_wait_seconds for load in imbalance.ranks] == pytest.approx(
        [90 * MICRO, 10 * MICRO]
    )
    (shared,) = share_collectives(breakdowns)
    assert shared.message_bytes == 4000
    assert shared.transfer_seconds == pytest.approx(2 * (10 + 20) * MICRO)
    # An all-reduce of two ranks: bus bandwidth = 4000 B · 2 · (2 − 1) / 2 each, four of them in 60 µs.
    assert shared.bus_bytes_per_second == pytest.approx(16000 / (60 * MICRO))


def test_a_rank_that_always_comes_last_is_a_straggler(tmp_path: Path):
    starts = [100 * i for i in range(1, 7)]
    late = [s + 50 for s in starts]
    ends = [s + 60 for s in starts]
    traces = [all_reduces(0, starts, ends), all_reduces(1, late, ends)]
    loads = compare_ranks([break_down(analyse(t.read(tmp_path))) for t in traces]).ranks
    assert [load.num_last for load in loads] == [0, 6]
    assert [load.is_straggler for load in loads] == [False, True]


def test_a_comparison_names_what_got_slower(tmp_path: Path):
    before = two_kernels()
    after = two_kernels()
    for event in after.events:
        if event["name"] == "gemm_b":
            event["dur"] += 15
    changed = compare_explanations(
        explain([before.read(tmp_path)]), explain([after.read(tmp_path)])
    )  # fmt: skip
    assert changed.kernels[0].label == "gemm_b"
    assert changed.kernels[0].seconds == pytest.approx(15 * MICRO)
    assert changed.kernels[0].ratio == pytest.approx(35 / 20)
    assert changed.kernels[1].seconds == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("kernel", "operator", "kind"),
    [
        ("ncclDevKernel_AllGather_RING_LL", "", OperationKind.COLLECTIVE),
        ("void flash_fwd_kernel<…>", "", OperationKind.ATTENTION),
        ("Cijk_Ailk_Bljk_HHS_BH", "", OperationKind.MATMUL),
        ("void at::native::vectorized_layer_norm_kernel", "", OperationKind.NORMALIZATION),
        ("void at::native::(anonymous namespace)::CatArrayBatchedCopy", "", OperationKind.COPY),
        ("mystery", "aten::sort", OperationKind.SORT),
        ("mystery", "custom::thing", OperationKind.UNKNOWN),
        ("cutlass__5x_cudnn::Kernel<cutlass_tensorop>", "aten::cudnn_convolution", OperationKind.CONVOLUTION),
    ],
)
def test_kernels_are_known_by_their_names_then_by_their_operators(kernel, operator, kind):
    assert kernel_kind(kernel, operator) is kind


_KINDS = {
    OperationKind.CONVOLUTION: "aten::convolution_backward aten::_slow_conv2d_forward "
    "aten::slow_conv_dilated3d autograd::engine::evaluate_function: ConvolutionBackward0",
    OperationKind.EMBEDDING: "aten::_embedding_bag fbgemm::split_embedding_codegen_lookup_sgd_function",
    OperationKind.COLLECTIVE: "_c10d_functional::wait_tensor c10d::_allgather_base_",
    OperationKind.COPY: "fsdp::all_gather_copy_in fsdp::chunk_cat aten::constant_pad_nd "
    "aten::reflection_pad2d_backward aten::upsample_bicubic2d",
    OperationKind.ELEMENTWISE: "aten::lerp_ aten::_prelu_kernel_backward aten::threshold_backward "
    "aten::_fft_c2c MulBackward0 torch::autograd::AccumulateGrad aten::hardswish_ aten::sin aten::maximum",
    OperationKind.GROUPED_MATMUL: "aten::_grouped_mm",
    OperationKind.FILL: "aten::permute aten::arange aten::unbind UnsafeSplitBackward0",
    OperationKind.REDUCTION: "aten::linalg_vector_norm aten::amax aten::cumprod",
    OperationKind.NORMALIZATION: "aten::native_layer_norm NativeBatchNormBackward0",
    OperationKind.RANDOM: "aten::normal_ aten::bernoulli_",
    OperationKind.MATMUL: "aten::linalg_solve aten::_cdist_forward AddmmBackward0",
    OperationKind.LOSS: "aten::_ctc_loss",
}


@pytest.mark.parametrize("kind", _KINDS, ids=lambda kind: kind.value)
def test_operators_have_kinds_of_their_own(kind: OperationKind):
    for part in _KINDS[kind].replace("function: ", "function:").split():
        name = part.replace("function:", "function: ")
        assert operator_kind(name) is kind, name


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("allreduce", "all_reduce"), ("_allgather_base", "all_gather"),
        ("c10d::alltoall_base_", "all_to_all"),
        ("gloo:all_to_all", "all_to_all"), ("reduce_scatter_tensor", "reduce_scatter"), ("wait", "wait"),
    ],
)  # fmt: skip
def test_a_collective_has_one_name_for_all_its_spellings(word, name):
    assert canonical_name(word) == name


intervals = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=20)


@given(intervals, intervals)
def test_unions_agree_with_counting_every_moment(first, second):
    import numpy as np

    def covered(pairs):
        return {moment for start, length in pairs for moment in range(start, start + length)}

    def spans(pairs):
        starts = np.array([s for s, _ in pairs], dtype=np.float64)
        return union(starts, starts + np.array([n for _, n in pairs], dtype=np.float64))

    a, b = spans(first), spans(second)
    assert total_seconds(a) == len(covered(first))
    assert overlap_seconds(a, b) == len(covered(first) & covered(second))
    assert total_seconds(gaps(a, 0.0, 100.0)) == 100 - len(covered(first))


works = st.lists(
    st.tuples(
        st.integers(0, 80), st.integers(1, 30), st.sampled_from(["gemm", "ncclDevKernel_AllReduce", "Memcpy"])
    ),
    max_size=10,
)


@settings(max_examples=50, deadline=None)
@given(works)
def test_the_parts_always_add_up_to_the_window(tmp_path_factory: pytest.TempPathFactory, drawn):
    recording = Recording()
    recording.step(1, 0, 100)
    recording.operator("aten::mm", 0, 5)
    for index, (start, duration, name) in enumerate(drawn, 1):
        recording.call("cudaLaunchKernel", start / 2, 1, index)
        add = recording.copy if name == "Memcpy" else recording.kernel
        add(name, start, duration, index)
    own = breakdown_of(recording, tmp_path_factory.mktemp("drawn"))
    total = sum(part.seconds for part in device_parts(own))
    assert total == pytest.approx(own.window_seconds)
    assert own.device_time.overlap_seconds <= own.device_time.communication_seconds + 1e-12
