"""The study's steps on several devices: what was run, cut and simulated."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from perfcast.catalogs.devices import load_device
from perfcast.catalogs.models import ModelEntry, load_model
from perfcast.core.graph import Graph
from perfcast.core.model.transformer import Transformer
from perfcast.core.operation import OperationKind
from perfcast.core.plan import Plan
from perfcast.core.work import StepWork
from perfcast.cost.roofline import Roofline
from perfcast.evidence.validate.steps import plans as step_plans
from perfcast.evidence.validate.steps.cases import read_steps
from perfcast.evidence.validate.steps.megatron_gpt import build_megatron_program
from perfcast.evidence.validate.steps.plans import count_kernels, find_server, read_plan, simulate_plan
from perfcast.evidence.validate.steps.suite import validate_neusight
from perfcast.workload.capture.capture import CaptureOptions, capture
from perfcast.workload.shard import MEGATRON_DDP, shard_graph
from perfcast.workload.step import OptimizerChoice

GPT = Transformer(
    num_layers=4, hidden_size=1024, num_attention_heads=8, num_kv_heads=8, head_size=128,
    ffn_hidden_size=4096, vocab_size=500, positions="learned", max_positions=64, has_dropout=True,
)  # fmt: skip
A100 = load_device("a100-sxm-40gb")


@cache
def graph_of(micro_batch_size: int, tensor_parallel: int) -> Graph:
    return capture(
        lambda: build_megatron_program(GPT, micro_batch_size, 64, tensor_parallel),
        CaptureOptions(optimizer=OptimizerChoice("adamw", "fused")),
    )[0]


@cache
def work_of(variant: str, batch_size: int = 64) -> StepWork:
    plan = read_plan(variant, batch_size)
    assert plan is not None
    graph = graph_of(plan.micro_batch_size, plan.tensor_parallel)
    return shard_graph(graph, plan, reduction=MEGATRON_DDP)


@pytest.fixture
def of_four_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog's models, cut short."""

    def load(name: str) -> ModelEntry:
        entry = load_model(name)
        return replace(entry, config={**entry.config, "n_layer": 4})

    monkeypatch.setattr(step_plans, "load_model", load)


@pytest.mark.parametrize(
    ("variant", "plan"),
    [
        ("dp4", Plan(data_parallel=4, micro_batch_size=4)),
        ("tp4", Plan(tensor_parallel=4, micro_batch_size=16)),
        ("pp4_1", Plan(pipeline_parallel=4, micro_batch_size=16)),
        ("pp2_4", Plan(pipeline_parallel=2, micro_batch_size=4, num_micro_batches=4)),
    ],
)
def test_a_variant_is_a_plan_of_the_global_batch(variant: str, plan: Plan) -> None:
    found = read_plan(variant, 16)
    assert found is not None
    assert (found.data_parallel, found.tensor_parallel, found.pipeline_parallel) == (
        plan.data_parallel, plan.tensor_parallel, plan.pipeline_parallel,
    )  # fmt: skip
    assert found.global_batch_size == 16 == plan.global_batch_size
    assert not found.overlaps_gradients


@pytest.mark.parametrize("variant", ["", "fusion", "pp4", "dp4_1", "dp0", "dp3"])
def test_other_words_and_batches_that_do_not_divide_are_no_plan(variant: str) -> None:
    assert read_plan(variant, 16) is None


def test_servers_are_those_joined_by_nvlink() -> None:
    server = find_server("a100-sxm-40gb", 4)
    assert server is not None
    assert (server.num_devices, len({level.link.kind for level in server.levels[:1]})) == (4, 1)
    assert server.levels[0].link.kind == "nvlink3"
    assert find_server("t4", 4) is None
    assert find_server("h100-sxm", 16) is None


def test_scores_are_masked_in_place_and_gelu_is_one_kernel() -> None:
    layer = work_of("tp4").layers[1]
    names = [call.operation.name for call in layer.forward if not call.is_collective]
    assert names == [
        "native_layer_norm", "mm", "add", "new_empty", "baddbmm", "masked_fill_", "_softmax",
        "native_dropout", "bmm", "clone", "addmm", "native_dropout", "add", "native_layer_norm", "addmm",
        "gelu", "addmm", "native_dropout", "add",
    ]  # fmt: skip


def test_the_vocabulary_is_padded_to_what_divides() -> None:
    tables = [call.operation.inputs[0].shape for call in work_of("tp4").layers[0].forward
              if call.operation.kind is OperationKind.EMBEDDING]  # fmt: skip
    assert tables[0] == (512 // 4, 1024)


def test_products_are_shared_and_a_step_updates() -> None:
    one, four = work_of("dp4"), work_of("tp4")
    whole = sum(o.flops * n for o, n in count_kernels(one).items() if o.kind is OperationKind.MATMUL)
    part = sum(o.flops * n for o, n in count_kernels(four).items() if o.kind is OperationKind.MATMUL)
    assert part == whole  # a quarter of the products of four times the tokens
    assert "_fused_adamw_" in {call.operation.name for call in one.stages[0].optimizer}


def test_stages_wait_for_one_another_and_replicas_do_not() -> None:
    seconds = {}
    for variant in ("dp4", "tp4", "pp4_1"):
        server = find_server("a100-sxm-40gb", 4)
        assert server is not None
        found = simulate_plan(work_of(variant), A100, Roofline(), server)
        assert found.low <= found.seconds <= found.high
        seconds[variant] = found.seconds
    assert seconds["pp4_1"] > 2 * seconds["dp4"]
    assert seconds["pp4_1"] > 2 * seconds["tp4"]


@pytest.mark.usefixtures("of_four_layers")
def test_rows_of_several_devices_are_forecast_by_every_predictor(tmp_path: Path, weights: Path) -> None:
    row = {"device": "NVIDIA A100-SXM4-40GB", "model": "gpt2_large", "mode": "train", "sequence_length": 64,
           "batch_size": 4, "variant": "tp4", "step_ms": 40.0, "forward_ms": None, "backward_ms": None,
           "neusight_predicted_ms": 50.0}  # fmt: skip
    rows = [row, row | {"mode": "inference"}, row | {"device": "Tesla T4"}, row | {"variant": "tp3"}]
    pl.DataFrame(rows, infer_schema_length=None).write_csv(tmp_path / "steps.csv")
    result = validate_neusight([tmp_path], ["roofline", "learned"], weights=weights)
    found = [line.to_json() for line in result.rows()]
    first = [line for line in found if line["row"] == 0]
    assert {line["predictor"] for line in first} == {"roofline", "learned", "published:neusight"}
    ours = next(line for line in first if line["predictor"] == "roofline")
    assert ours["predicted_seconds"] > 0
    assert ours["predicted_forward_seconds"] is None
    reasons = {line["row"]: line["skipped"] for line in found if line["predictor"] == "roofline"}
    assert reasons == {0: None, 1: "unsupported plan", 2: "unsupported plan", 3: "unsupported plan"}
    assert any(entry["value"] == "several devices" for entry in result.more_summary)


def test_a_case_of_several_devices_asks_for_one_replica(tmp_path: Path) -> None:
    pl.DataFrame({"device": ["NVIDIA H100 80GB HBM3"], "model": ["gpt2_large"], "mode": ["train"],
                  "sequence_length": [1024], "batch_size": [16], "variant": ["dp4"], "step_ms": [1.0]}
                 ).write_csv(tmp_path / "steps.csv")  # fmt: skip
    (case,) = read_steps(tmp_path / "steps.csv")
    assert case.request.batch_size == 4
    assert case.plan_request == case.key
