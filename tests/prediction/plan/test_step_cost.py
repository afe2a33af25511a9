"""The rough step time by hand: only good for weighing one plan against another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import made_up_device
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.core.weights import count_parameters
from perfcast.errors import PlanError
from perfcast.prediction.plan.step_cost import StepCost, estimate_step_cost
from small_transformers import gpt, mixture

S, B = 256, 4
PLAN = Plan(micro_batch_size=B)
BF16 = Training(framework="megatron_local")
N = count_parameters(gpt())


def cost(plan: Plan = PLAN, model=None, training: Training = BF16) -> StepCost:
    return estimate_step_cost(model or gpt(), plan, training, S, made_up_device())


def test_products_take_six_flops_a_parameter_and_token_and_attention_twelve_s_h_a_layer_at_half_the_peak():
    flops = 6 * N * S * B + 12 * S * B * S * 64 * 8
    assert cost().product_seconds == pytest.approx(flops / (0.5 * 10e12))


def test_full_recomputation_takes_a_third_more_and_selective_attention_again():
    none, selective, full = (
        cost(replace(PLAN, recompute=r)).product_seconds for r in ("none", "selective", "full")
    )
    assert full == pytest.approx(none * 4 / 3)
    assert selective - none == pytest.approx(4 * S * B * S * 64 * 8 / (0.5 * 10e12))


def test_each_micro_batch_reads_the_weights_three_times():
    many = replace(PLAN, micro_batch_size=1, num_micro_batches=4)
    assert cost(many).weight_seconds == pytest.approx(4 * 3 * 2 * N / 100e9)
    assert cost(many).product_seconds == pytest.approx(cost().product_seconds)


def test_tensor_parallelism_exchanges_eight_bsh_a_layer():
    two = cost(replace(PLAN, tensor_parallel=2))
    num_bytes = 2 * 8 * B * S * 64 * 8 / 2
    assert two.tensor_exchange_seconds == pytest.approx(num_bytes / (0.8 * 32e9))
    assert cost().tensor_exchange_seconds == 0


@pytest.mark.parametrize(("zero", "passes"), [(0, 2), (1, 2), (2, 1 + 4), (3, 2 * 4 + 4)])
def test_zero_gathers_and_reduces_per_micro_batch(zero: int, passes: int):
    plan = Plan(data_parallel=4, num_micro_batches=4, zero_stage=zero)
    num_bytes = 2 * N * passes * 3 / 4
    assert cost(plan).data_exchange_seconds == pytest.approx(num_bytes / (0.8 * 32e9))


def test_full_recomputation_exchanges_half_as_much_again():
    plan = Plan(tensor_parallel=4, sequence_parallel=True)
    once, again = (cost(replace(plan, recompute=r)).tensor_exchange_seconds for r in ("none", "full"))
    assert again == pytest.approx(1.5 * once)


def test_keeping_gathered_weights_saves_a_gather():
    plan = Plan(data_parallel=4, num_micro_batches=4, zero_stage=3)
    both = [cost(replace(plan, reshard_after_forward=again)).data_exchange_seconds for again in (True, False)]
    assert both[0] / both[1] == pytest.approx(12 / 8)


def test_servers_of_eight_are_linked_by_one_adapter_a_device():
    near, far = (cost(Plan(data_parallel=n, micro_batch_size=B)).data_exchange_seconds for n in (8, 16))
    assert near == pytest.approx(2 * 2 * N * 7 / 8 / (0.8 * 32e9))
    assert far == pytest.approx(2 * 2 * N * 15 / 16 / (0.8 * 50e9))


def test_the_bubble_is_stages_less_one_over_micro_batches():
    plan = Plan(pipeline_parallel=4, num_micro_batches=8)
    found = cost(plan)
    assert found.bubble_seconds == pytest.approx(3 / 8 * (found.product_seconds + found.weight_seconds))
    chunked = replace(plan, virtual_stages_per_rank=2, schedule="interleaved")
    assert cost(chunked).bubble_seconds == pytest.approx(found.bubble_seconds / 2)


def test_an_offloaded_optimizer_crosses_pcie_and_host_memory():
    seconds = 6 * N / (0.8 * 32e9) + 2 * 16 * N / 200e9
    assert cost(replace(PLAN, offload="optimizer")).offload_seconds == pytest.approx(seconds)
    sharded = Plan(data_parallel=4, zero_stage=1, offload="optimizer")
    assert cost(sharded).offload_seconds == pytest.approx(seconds / 4)


def test_offloaded_activations_go_out_and_come_back():
    """34 bytes of a GPT layer with dropout, and four of each row's statistic."""
    plan = replace(PLAN, offload="activations", num_micro_batches=3)
    num_bytes = 2 * 8 * (S * B * 64 * 34 + 4 * S * B * 4)
    assert cost(plan).offload_seconds == pytest.approx(3 * num_bytes / (0.8 * 32e9))


def test_a_token_multiplies_with_the_experts_it_visits_and_all_are_read():
    model = mixture()
    total = count_parameters(model)
    idle = 8 * (8 - 2) * 3 * 64 * 96
    found = cost(model=model)
    attention = 12 * S * B * S * 64 * 8
    assert found.product_seconds == pytest.approx((6 * (total - idle) * S * B + attention) / (0.5 * 10e12))
    assert found.weight_seconds == pytest.approx(3 * 2 * total / 100e9)


def test_the_whole_is_the_sum_of_its_causes():
    plan = Plan(
        data_parallel=2, tensor_parallel=2, pipeline_parallel=2, num_micro_batches=4, offload="optimizer"
    )
    found = cost(plan)
    causes = (
        found.product_seconds, found.weight_seconds, found.tensor_exchange_seconds,
        found.data_exchange_seconds, found.offload_seconds, found.bubble_seconds,
    )  # fmt: skip
    assert all(seconds > 0 for seconds in causes)
    assert found.seconds == pytest.approx(sum(causes))


def test_a_device_without_the_format_is_refused():
    with pytest.raises(PlanError, match="fp8"):
        cost(training=Training(dtype="fp8"))
