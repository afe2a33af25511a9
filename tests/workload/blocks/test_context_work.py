from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.core.collective import message_bytes
from perfcast.core.dtype import DType
from perfcast.core.model.heads import Heads
from perfcast.core.plan import Plan
from perfcast.core.work import Calls, Stream
from perfcast.errors import PlanError
from perfcast.workload.blocks.attention.context_parallel import (
    context_attention_backward,
    context_attention_forward,
)
from perfcast.workload.blocks.attention.context_setting import ContextSetting
from perfcast.workload.blocks.kernels import attention


def setting(cp: int, collective: str = "ring", sequence: int = 4096, **changes: object) -> ContextSetting:
    """A layer of Llama-3-8B on one of ``cp`` ranks."""
    plan = Plan(context_parallel=cp, context_communication=collective)
    sizes = ContextSetting(
        plan=plan, batch=1, sequence=sequence // cp, heads=Heads(32, 8, 128, 128), element=DType.BF16
    )
    return replace(sizes, **changes)  # type: ignore[arg-type]


def sent(calls: Calls) -> list[int]:
    return [message_bytes(call.operation) for call in calls if call.stream is Stream.CONTEXT]


def executed(calls: Calls) -> int:
    """Pairs of query and key that kernels compute, times 2 · (d + e) flops."""
    found = [call.operation for call in calls if call.operation.uses_matrix_units]
    return sum(o.executed_flops - o.recompute_flops for o in found)


KEYS = 4096 * 8 * 2 * 128 * 2  # tokens · kv heads · (key and value) · head size · bytes


@pytest.mark.parametrize("cp", [2, 4, 8])
def test_a_ring_moves_all_but_a_ranks_own_keys_and_values(cp: int):
    assert sum(sent(context_attention_forward(setting(cp)))) == (cp - 1) * KEYS // cp


@pytest.mark.parametrize("cp", [2, 4, 8])
def test_going_backward_gradients_travel_behind_keys_and_values(cp: int):
    assert sum(sent(context_attention_backward(setting(cp)))) == 2 * (cp - 1) * KEYS // cp


def test_a_ring_sends_while_it_computes():
    calls = context_attention_forward(setting(4))
    first = [place for place, call in enumerate(calls) if call.operation.name == "attention"]
    sends = [place for place, call in enumerate(calls) if call.stream is Stream.CONTEXT]
    assert not calls[sends[0]].after  # goes out at once
    assert sends[0] not in calls[first[0]].after  # the own block does not wait
    assert sends[0] in calls[first[1]].after  # the next one does
    assert len(first) == 4
    assert len(sends) == 3


def test_balanced_pieces_leave_each_step_half_a_block():
    blocks = [
        (call.operation.attribute("num_queries"), call.operation.attribute("num_keys"))
        for call in context_attention_forward(setting(4))
        if call.operation.name == "attention"
    ]
    assert blocks == [(1024, 1024), (1024, 512), (1024, 512), (1024, 512)]


@pytest.mark.parametrize("collective", ["ring", "ulysses", "all_gather"])
@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("build", [context_attention_forward, context_attention_backward])
def test_ranks_together_compute_all_of_attention(collective: str, is_causal: bool, build: object):
    is_backward = build is context_attention_backward
    whole = attention(1, 32, 8, 4096, 4096, 128, DType.BF16, causal=is_causal, is_backward=is_backward)
    calls: Calls = build(setting(4, collective, is_causal=is_causal))  # type: ignore[operator]
    assert 4 * executed(calls) == pytest.approx(whole.executed_flops - whole.recompute_flops, rel=2e-3)


def test_heads_for_sequence_sends_queries_keys_values_and_then_the_output():
    calls = context_attention_forward(setting(4, "ulysses"))
    tokens = 1024
    assert sent(calls) == [tokens * (32 + 2 * 8) * 128 * 2, tokens * 32 * 128 * 2]
    back = context_attention_backward(setting(4, "ulysses"))
    assert sent(back) == list(reversed(sent(calls)))


def test_fewer_key_heads_than_ranks_are_copied_before_they_are_exchanged():
    calls = context_attention_forward(setting(16, "ulysses"))
    assert sent(calls)[0] == 256 * (32 + 2 * 16) * 128 * 2


def test_heads_for_sequence_needs_heads_that_divide():
    with pytest.raises(PlanError, match="cp=3 does not divide the 32 attention heads of a rank"):
        context_attention_forward(setting(3, "ulysses", sequence=4098))


def test_gathered_keys_come_once_forward_and_go_back_as_sums():
    assert sent(context_attention_forward(setting(4, "all_gather"))) == [KEYS]
    assert sent(context_attention_backward(setting(4, "all_gather"))) == [KEYS, KEYS]


def test_values_of_another_size_travel_as_such():
    wide = setting(2, heads=Heads(32, 32, 192, 128))
    assert sent(context_attention_forward(wide)) == [2048 * 32 * (192 + 128) * 2]


def test_a_window_leaves_few_keys_to_each_query():
    calls = context_attention_forward(setting(4, "ulysses", window=256))
    kernel = next(call.operation for call in calls if call.operation.name == "attention")
    assert kernel.attribute("num_keys") == 256


@given(
    cp=st.sampled_from([2, 4, 8]), collective=st.sampled_from(["ring", "ulysses", "all_gather"]),
    is_backward=st.booleans(), sequence=st.integers(1, 32).map(lambda n: 64 * n),
)  # fmt: skip
def test_calls_wait_for_earlier_ones_on_other_streams(
    cp: int, collective: str, is_backward: bool, sequence: int
):
    build = context_attention_backward if is_backward else context_attention_forward
    calls = build(setting(cp, collective, sequence))
    for place, call in enumerate(calls):
        assert all(at < place for at in call.after)
        assert all(calls[at].stream is not call.stream for at in call.after)


def pytorch(cp: int, collective: str = "ring") -> ContextSetting:
    return setting(cp, collective, program="pytorch")


@pytest.mark.parametrize("collective", ["ring", "all_gather"])
def test_pytorchs_ring_attends_to_as_much_as_transformer_engines(collective: str):
    for ask in (context_attention_forward, context_attention_backward):
        assert executed(ask(pytorch(4, collective))) == executed(ask(setting(4)))


def test_pytorch_gathers_keys_and_values_once_and_sends_their_gradients_in_fp32():
    assert sent(context_attention_forward(pytorch(4, "all_gather"))) == [KEYS]
    assert sent(context_attention_backward(pytorch(4, "all_gather"))) == [KEYS, *[2 * KEYS // 4] * 4]


def test_pytorch_joins_outputs_by_kernels_that_move_three_times_as_much():
    def moved(found: ContextSetting) -> int:
        calls = [call.operation for call in context_attention_forward(found) if not call.is_collective]
        return sum(each.memory_traffic_bytes for each in calls if not each.uses_matrix_units)

    assert moved(pytorch(4)) > 3 * moved(setting(4))
