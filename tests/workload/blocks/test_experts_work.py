from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfcast.core.collective import message_bytes, token_routing
from perfcast.core.model.token_routing import TokenRouting
from perfcast.core.model.transformer import Experts, LatentAttention, Transformer
from perfcast.core.operation import OperationKind
from perfcast.core.plan import Dispatch, Plan
from perfcast.core.training import Training
from perfcast.core.work import Call, Calls, Stream
from perfcast.errors import ModelError, PlanError
from perfcast.workload.blocks.experts.routing import (
    dropped_share,
    expert_load,
    kept_share,
    routing_assumptions,
)
from perfcast.workload.blocks.experts.training import experts_backward, experts_forward
from perfcast.workload.blocks.local import Local
from perfcast.workload.blocks.step.flops import flops_per_sequence
from perfcast.workload.blocks.tape import Tape
from small_transformers import llama, mixture

#: Mixtral 8x7B (Jiang et al. 2024, table 1).
MIXTRAL = Transformer(
    num_layers=32, hidden_size=4096, num_attention_heads=32, num_kv_heads=8, head_size=128,
    ffn_hidden_size=14336, vocab_size=32000, is_gated=True, activation="silu", norm="rmsnorm",
    has_linear_bias=False, has_qkv_bias=False, ties_embeddings=False,
    experts=Experts(num_experts=8, experts_per_token=2, ffn_hidden_size=14336),
)  # fmt: skip
#: DeepSeek-V3 (DeepSeek-AI 2024, section 4.2).
DEEPSEEK = replace(
    MIXTRAL, num_layers=61, hidden_size=7168, num_attention_heads=128, num_kv_heads=128,
    ffn_hidden_size=18432, vocab_size=129280,
    experts=Experts(256, 8, 2048, shared_ffn_hidden_size=2048, num_dense_layers=3),
    latent_attention=LatentAttention(1536, 512, 128, 64, 128),
)  # fmt: skip
MEGATRON = Training(framework="megatron")


def local(model: Transformer, plan: Plan, sequence: int = 4096) -> Local:
    return Local(model, plan, MEGATRON, sequence)


def forward(model: Transformer, plan: Plan, sequence: int = 4096) -> Calls:
    tape = Tape()
    experts_forward(tape, local(model, plan, sequence))
    return tape.calls()


def backward(model: Transformer, plan: Plan, sequence: int = 4096) -> Calls:
    tape = Tape()
    experts_backward(tape, local(model, plan, sequence))
    return tape.calls()


def flops(calls: Calls, module: str = "") -> int:
    return sum(
        call.operation.flops
        for call in calls
        if call.operation.uses_matrix_units and call.module.startswith(module)
    )


def exchanged(calls: Calls, stream: Stream) -> list[tuple[str, str, int]]:
    return [
        (call.module, call.operation.name, message_bytes(call.operation))
        for call in calls
        if call.stream is stream and call.module != "experts.counts"
    ]


# ---- by hand -----------------------------------------------------------------------------------------


def test_a_mixtral_layer_computes_two_experts_for_each_token():
    calls = forward(MIXTRAL, Plan(data_parallel=8, expert_parallel=8))
    assert flops(calls, "experts.up") == 2 * (4096 * 2) * 4096 * (2 * 14336)
    assert flops(calls, "experts.down") == 2 * (4096 * 2) * 14336 * 4096
    assert flops(calls, "experts.router") == 2 * 4096 * 4096 * 8


def test_a_mixtral_rank_sends_two_rows_of_each_token_and_gets_them_back():
    each = 4096 * 2 * 4096 * 2  # tokens · experts a token · hidden · bytes
    calls = forward(MIXTRAL, Plan(data_parallel=8, expert_parallel=8, dispatch="alltoall"))
    assert exchanged(calls, Stream.EXPERT) == [
        ("experts.dispatch", "all_to_all", each),
        ("experts.combine", "all_to_all", each),
    ]


def test_a_fused_dispatch_says_where_tokens_go_and_repeats_them_where_they_arrive():
    calls = forward(DEEPSEEK, Plan(data_parallel=64, expert_parallel=64))
    rows = 4096 * 8 * 7168
    assert exchanged(calls, Stream.EXPERT) == [
        ("experts.dispatch", "dispatch", rows * 2),
        ("experts.combine", "dispatch", rows * 2),
    ]
    sent = calls[_place(calls, "experts.dispatch")].operation
    assert token_routing(sent) == TokenRouting(256, 8)
    assert _place(calls, "experts.permute") > _place(calls, "experts.dispatch")
    assert calls[_place(calls, "experts.permute")].operation.outputs[0].shape == (4096 * 8, 7168)
    assert not [call for call in calls if call.module == "experts.counts"]


def test_a_dispatch_in_fp8_sends_a_byte_and_its_scales_and_gets_two_back():
    calls = forward(DEEPSEEK, Plan(data_parallel=64, expert_parallel=64, dispatch="deepep_fp8"))
    rows = 4096 * 8 * 7168
    assert [size for _, _, size in exchanged(calls, Stream.EXPERT)] == [rows + rows // 32, rows * 2]


def test_a_gather_of_all_tokens_takes_those_of_every_rank():
    calls = forward(MIXTRAL, Plan(data_parallel=8, expert_parallel=8, dispatch="allgather"))
    whole = 8 * 4096 * 4096 * 2
    assert exchanged(calls, Stream.EXPERT) == [
        ("experts.dispatch", "all_gather", whole),
        ("experts.combine", "reduce_scatter", whole),
    ]


def test_ranks_tell_each_other_how_many_rows_they_have_for_each_expert():
    calls = forward(MIXTRAL, Plan(data_parallel=8, expert_parallel=4, dispatch="alltoall"))
    counts = [call.operation for call in calls if call.module == "experts.counts"]
    assert [(o.name, message_bytes(o)) for o in counts] == [("all_gather", 4 * 8 * 8)]
    assert not [call for call in forward(MIXTRAL, Plan()) if call.module == "experts.counts"]


def test_a_deepseek_layer_adds_one_shared_expert_to_eight_routed_ones():
    calls = forward(DEEPSEEK, Plan(data_parallel=64, expert_parallel=64))
    expert = 3 * 7168 * 2048
    assert flops(calls, "experts.up") + flops(calls, "experts.down") == 2 * 4096 * 8 * expert
    assert flops(calls, "shared") == 2 * 4096 * expert
    assert exchanged(calls, Stream.EXPERT)[0][2] == 4096 * 8 * 7168 * 2


def test_a_backward_has_twice_the_products_and_the_same_collectives():
    plan = Plan(data_parallel=8, expert_parallel=8)
    there, back = forward(DEEPSEEK, plan), backward(DEEPSEEK, plan)
    assert flops(back) == 2 * flops(there)
    assert [e[1:] for e in exchanged(back, Stream.EXPERT)] == [e[1:] for e in exchanged(there, Stream.EXPERT)]


def test_half_of_a_backward_is_weight_gradients():
    back = backward(DEEPSEEK, Plan(data_parallel=8, expert_parallel=8))
    late = tuple(call for call in back if call.is_weight_gradient)
    assert 2 * flops(late) == flops(back)


def test_what_cuts_an_expert_gathers_its_rows_and_sums_its_outputs():
    plan = Plan(data_parallel=4, tensor_parallel=4, sequence_parallel=True, expert_parallel=8)
    plan = replace(plan, expert_tensor_parallel=2, dispatch="alltoall")
    calls = forward(mixture(), plan, 64)
    own = 64 // 4 * 2
    assert exchanged(calls, Stream.EXPERT) == [
        ("experts.dispatch", "all_to_all", own * 64 * 2),
        ("experts.gather", "all_gather", own * 2 * 64 * 2),
        ("experts.scatter", "reduce_scatter", own * 2 * 64 * 2),
        ("experts.combine", "all_to_all", own * 64 * 2),
    ]
    assert flops(calls, "experts.down") == 2 * (own * 2) * (96 // 2) * 64


def test_ranks_that_hold_the_same_tokens_and_cut_each_expert_add_up():
    calls = forward(mixture(), Plan(tensor_parallel=2), 64)
    assert exchanged(calls, Stream.EXPERT) == []
    assert exchanged(calls, Stream.TENSOR) == [("experts.output", "all_reduce", 64 * 64 * 2)]
    assert flops(calls, "experts.down") == 2 * 64 * 2 * 48 * 64


def test_ranks_that_hold_the_same_tokens_and_whole_experts_take_a_part_of_the_tokens_each():
    plan = Plan(tensor_parallel=2, data_parallel=2, expert_parallel=4)
    calls = forward(mixture(), plan, 64)
    assert exchanged(calls, Stream.TENSOR) == [("experts.output", "all_gather", 64 * 64 * 2)]
    assert flops(calls, "experts.down") == 2 * 32 * 2 * 96 * 64


def test_a_gate_of_shared_experts_is_one_more_product():
    experts = Experts(8, 2, 96, shared_ffn_hidden_size=96, has_shared_gate=True)
    calls = forward(llama(experts=experts), Plan(), 64)
    assert flops(calls, "shared.gate") == 2 * 64 * 64


def test_experts_in_fp8_quantise_what_they_multiply():
    tape = Tape()
    experts_forward(tape, Local(mixture(), Plan(), replace(MEGATRON, dtype="fp8"), 64))
    names = [call.operation.name for call in tape.calls()]
    assert names.count("quantise") == 2


# ---- order -------------------------------------------------------------------------------------------


def _place(calls: Calls, module: str) -> int:
    return next(at for at, call in enumerate(calls) if call.module == module)


def test_experts_wait_for_their_rows():
    calls = forward(MIXTRAL, Plan(data_parallel=4, expert_parallel=4, dispatch="alltoall"))
    dispatch = _place(calls, "experts.dispatch")
    assert calls[dispatch].after == (_place(calls, "experts.permute"),)
    assert _place(calls, "experts.counts") in calls[_place(calls, "experts.permute")].after
    assert dispatch in calls[_place(calls, "experts.sort")].after


def test_shared_experts_run_beside_the_collective_only_where_the_plan_says():
    plan = Plan(data_parallel=8, expert_parallel=8)
    apart, beside = forward(DEEPSEEK, plan), forward(DEEPSEEK, replace(plan, overlaps_shared_experts=True))
    assert _place(apart, "shared.up") < _place(apart, "experts.dispatch")
    assert _place(beside, "shared.up") > _place(beside, "experts.dispatch")
    assert not beside[_place(beside, "shared.up")].after
    assert flops(apart) == flops(beside)


@pytest.mark.parametrize("build", [forward, backward])
@pytest.mark.parametrize("overlaps", [False, True])
def test_calls_wait_for_earlier_ones_on_other_streams(build: object, overlaps: bool):
    plan = Plan(data_parallel=8, expert_parallel=8, overlaps_shared_experts=overlaps)
    calls: tuple[Call, ...] = build(DEEPSEEK, plan)  # type: ignore[operator]
    for place, call in enumerate(calls):
        assert all(at < place for at in call.after)
        assert all(calls[at].stream is not call.stream for at in call.after)


# ---- balance -----------------------------------------------------------------------------------------


def test_an_imbalance_of_one_is_balance():
    plan = Plan(data_parallel=8, expert_parallel=8)
    assert forward(MIXTRAL, replace(plan, expert_imbalance=1.0)) == forward(MIXTRAL, plan)


def test_a_capacity_of_one_drops_nothing_where_the_load_is_balanced():
    plan = Plan(data_parallel=8, expert_parallel=8, capacity_factor=1.0)
    assert dropped_share(plan) == 0
    free = forward(MIXTRAL, replace(plan, capacity_factor=None))
    assert forward(MIXTRAL, plan) == tuple(replace(call, host_waits=False) for call in free)


def test_a_capacity_below_the_imbalance_drops_the_rest():
    plan = Plan(capacity_factor=1.5, expert_imbalance=2.0)
    assert dropped_share(plan) == pytest.approx(0.25)
    assert expert_load(mixture(), plan, 64).rows == 64 * 2 * 1.5


def test_a_reader_is_told_how_tokens_spread():
    assert routing_assumptions(llama(), Plan()) == ()
    assert routing_assumptions(mixture(), Plan()) == ("tokens are spread evenly over the experts",)
    skewed, drops = routing_assumptions(mixture(), Plan(expert_imbalance=2.0, capacity_factor=1.5))
    assert "take 2 times the mean" in skewed
    assert "1.5 times its mean, which drops 25%" in drops


def test_a_capacity_is_filled_whatever_the_imbalance():
    plan = Plan(capacity_factor=1.25)
    skewed = replace(plan, expert_imbalance=4.0)
    assert expert_load(mixture(), plan, 64) == expert_load(mixture(), skewed, 64)


degrees = st.sampled_from([1, 2, 4])


@given(
    ep=st.sampled_from([1, 2, 4, 8]), tp=degrees, dp=degrees, etp=degrees, sp=st.booleans(),
    tokens=st.integers(1, 64).map(lambda n: 8 * n),
)  # fmt: skip
def test_ranks_together_compute_each_token_once_for_each_of_its_experts(
    ep: int, tp: int, dp: int, etp: int, sp: bool, tokens: int
):
    """Rows × the part of an expert that each rank has, over all ranks of a stage."""
    if (dp * tp) % (ep * etp):
        return
    plan = Plan(
        data_parallel=dp, tensor_parallel=tp, expert_parallel=ep, expert_tensor_parallel=etp,
        sequence_parallel=sp,
    )  # fmt: skip
    load = expert_load(mixture(), plan, tokens)
    assert load.rows * plan.ranks_per_stage == tokens * dp * 2 * etp


@settings(max_examples=30, deadline=None)
@given(imbalance=st.floats(1, 8), more=st.floats(0, 4), ep=st.sampled_from([1, 2, 4, 8]))
def test_more_imbalance_is_never_less_work(imbalance: float, more: float, ep: int):
    plan = Plan(data_parallel=8, expert_parallel=ep, expert_imbalance=imbalance)
    worse = replace(plan, expert_imbalance=imbalance + more)
    for build in (forward, backward):
        less, most = build(mixture(), plan, 64), build(mixture(), worse, 64)
        assert flops(less) <= flops(most)
        for a, b in zip(exchanged(less, Stream.EXPERT), exchanged(most, Stream.EXPERT), strict=True):
            assert a[2] <= b[2]


@given(ep=st.sampled_from([1, 2, 4]), etp=degrees)
def test_more_expert_ranks_never_hold_more_weights(ep: int, etp: int):
    def held(plan: Plan) -> int:
        grouped = [
            call.operation.inputs[1]
            for call in forward(mixture(), plan, 64)
            if call.operation.kind is OperationKind.GROUPED_MATMUL
        ]
        return sum(t.num_bytes for t in grouped)

    plan = Plan(data_parallel=32, expert_parallel=ep, expert_tensor_parallel=etp)
    assert held(replace(plan, expert_parallel=2 * ep)) == held(plan) // 2


def test_a_model_without_experts_has_no_layer_of_them():
    with pytest.raises(ModelError, match="without experts"):
        forward(llama(), Plan(), 64)


def test_experts_refuse_two_dimensional_tensor_parallelism():
    with pytest.raises(PlanError, match="tp_inputs=2 with experts"):
        forward(mixture(), Plan(tensor_parallel=4, tensor_parallel_inputs=2), 64)


# ---- the host ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dispatch", "module"), [("alltoall", "experts.counts"), ("deepep", "experts.router")]
)
def test_the_host_reads_how_many_rows_experts_have_once_a_forward(dispatch: Dispatch, module: str):
    plan = Plan(data_parallel=8, expert_parallel=8, dispatch=dispatch)
    assert [call.module for call in forward(MIXTRAL, plan) if call.host_waits] == [module]
    assert not [call for call in backward(MIXTRAL, plan) if call.host_waits]


def test_buffers_of_a_fixed_size_spare_the_host_its_wait():
    calls = forward(MIXTRAL, Plan(data_parallel=8, expert_parallel=8, capacity_factor=1.0))
    assert not [call for call in calls if call.host_waits]


@given(st.floats(0.05, 3.0))
def test_what_is_dropped_is_not_counted_as_work_done(capacity: float):
    plan = Plan(data_parallel=8, expert_parallel=8, capacity_factor=capacity)
    each = 3 * 4096 * 14336  # of an expert
    dropped = flops_per_sequence(MIXTRAL, 4096) - flops_per_sequence(MIXTRAL, 4096, kept_share(plan))
    expected = 3 * 2 * 4096 * MIXTRAL.num_layers * 2 * each * max(0.0, 1.0 - capacity)
    assert dropped == pytest.approx(expected, rel=1e-6, abs=1e9)
