"""NeuSight's forecasts on several GPUs and nodes, on graphs and prices that can be added up by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from perfcast.catalogs.clusters import load_cluster_entry
from perfcast.catalogs.devices import load_device
from perfcast.core.graph import Graph, Phase
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation
from perfcast.core.plan import Plan
from perfcast.cost.model import Estimates
from perfcast.errors import PlanError
from perfcast.published.neusight.distributed import (
    all_reduce_seconds,
    forecast_distributed,
    gradients,
    study_link,
)
from perfcast.published.neusight.multi_node import (
    NUM_LAYERS,
    PRINTED_SECONDS,
    decompose,
    study_cluster,
    study_plan,
)
from perfcast.workload.capture.capture import CaptureOptions, capture
from perfcast.workload.models.huggingface import build_program
from perfcast.workload.shape import StepShape
from perfcast.workload.step import OptimizerChoice

H100 = load_device("h100-sxm")
SERVER = load_cluster_entry("dgx-h100").of_size(4)
HIDDEN, LAYERS, WORDS, TOKENS = 32, 2, 99, 16
KERNEL_SECONDS = 1e-4


@dataclass(frozen=True)
class Even:
    """Every kernel takes the same."""

    name: str = "even"

    def estimate(self, operations: Sequence[Operation], device: Device) -> Estimates:
        seconds = np.full(len(operations), KERNEL_SECONDS)
        words = ("x",) * len(operations)
        return Estimates(seconds, seconds, seconds, words, words)


@pytest.fixture(scope="module")
def graph() -> Graph:
    config = {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": HIDDEN, "n_head": 4,
        "n_layer": LAYERS, "n_positions": 32, "vocab_size": WORDS,
    }  # fmt: skip
    shape = StepShape("train", batch_size=2, sequence_length=TOKENS, dtype="fp32", attention="eager")
    options = CaptureOptions(optimizer=OptimizerChoice("none"))
    return capture(lambda: build_program(config, "GPT2LMHeadModel", shape), options)[0]


def forecast(graph: Graph, **degrees: int) -> float:
    return forecast_distributed(graph, Plan(**degrees), Even(), H100, SERVER)


def test_a_link_is_half_of_nvlink_at_72_percent_with_gib_for_gb() -> None:
    assert study_link(SERVER) == pytest.approx(900 / 2 * 0.72 * 2**30)


def test_an_all_reduce_sends_three_whole_messages_among_four() -> None:
    assert all_reduce_seconds(1e9, 4, 1e11) == pytest.approx(0.03)


def test_a_pipeline_is_the_sum_and_eleven_messages(graph: Graph) -> None:
    """Two stages: 3 · 2 - 1 messages of the hidden states."""
    message = 2 * TOKENS * HIDDEN * 4 / study_link(SERVER)
    assert forecast(graph, pipeline_parallel=2) == pytest.approx(
        len(graph.nodes) * KERNEL_SECONDS + 5 * message, rel=1e-9
    )


def test_gradients_of_linears_and_norms_are_reduced_the_table_as_one_sequence(graph: Graph) -> None:
    layer = 12 * HIDDEN**2 + 13 * HIDDEN
    total = LAYERS * layer + 2 * HIDDEN + WORDS * HIDDEN + TOKENS * HIDDEN
    found = gradients(graph)
    assert sum(num_bytes for _, num_bytes in found) == 4 * total
    assert found == sorted(found)


def test_reductions_hide_behind_a_slow_backward_and_show_behind_a_fast_one(graph: Graph) -> None:
    alone = len(graph.nodes) * KERNEL_SECONDS
    last = gradients(graph)[-1][1]
    hidden = forecast(graph, data_parallel=4)
    assert alone <= hidden < alone + 2 * all_reduce_seconds(last, 4, study_link(SERVER))
    backward = sum(n.phase is Phase.BACKWARD for n in graph.nodes) * KERNEL_SECONDS
    shown = forecast(graph, data_parallel=10**7)
    total = sum(num_bytes for _, num_bytes in gradients(graph))
    reduced = all_reduce_seconds(total, 10**7, study_link(SERVER))
    assert shown == pytest.approx(alone - backward + reduced, rel=0.01)


def test_tensor_parallelism_adds_two_sums_a_layer_and_pass(graph: Graph) -> None:
    """99 words do not divide, so that the ends have none."""
    message = all_reduce_seconds(2 * TOKENS * HIDDEN * 4, 2, study_link(SERVER))
    kernels = len(graph.nodes) * KERNEL_SECONDS
    seconds = forecast(graph, tensor_parallel=2)
    assert seconds == pytest.approx(kernels + 4 * LAYERS * message, rel=0.01)


@pytest.mark.parametrize(
    "plan", [Plan(), Plan(data_parallel=2, tensor_parallel=2), Plan(pipeline_parallel=2, num_micro_batches=4)]
)
def test_it_forecasts_one_kind_alone(graph: Graph, plan: Plan) -> None:
    with pytest.raises(PlanError, match="one kind of parallelism alone, and a single micro-batch"):
        forecast_distributed(graph, plan, Even(), H100, SERVER)


# ---- nodes --------------------------------------------------------------------------------------


def test_printed_figures_are_one_node_and_whole_hops() -> None:
    found = decompose()
    assert found.hops == {1: 0, 4: 3, 384: 98, 768: 99, 3840: 103}
    assert found.hop_seconds == pytest.approx(0.10728, abs=1e-5)
    for nodes, seconds in PRINTED_SECONDS.items():
        again = PRINTED_SECONDS[1] + found.hops[nodes] * found.hop_seconds
        assert again == pytest.approx(seconds, abs=1e-4)


def test_figures_without_a_common_step_are_refused() -> None:
    with pytest.raises(ValueError, match="no common step"):
        decompose({1: 1.0, 2: 1.5, 3: 1.9, 4: 2.0**0.5 * 3})


@pytest.mark.parametrize("nodes", PRINTED_SECONDS)
def test_plans_fill_the_nodes_with_at_most_a_stage_a_layer(nodes: int) -> None:
    plan = study_plan(nodes)
    assert plan.world_size == nodes * 8 == study_cluster(nodes).num_devices
    assert plan.pipeline_parallel == min(nodes, NUM_LAYERS)


def test_nodes_are_joined_by_infiniband_of_100_gigabits() -> None:
    assert study_cluster(4).levels[-1].link.bytes_per_second == 12.5e9
    assert study_cluster(4).levels[0].link.bytes_per_second == 450e9
