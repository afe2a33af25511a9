"""What operations of a step take beyond their prices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.catalogs.devices import load_device
from perfcast.core.collective import collective_operation
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.errors import CatalogError
from perfcast.prediction.step.scaling import StepScaling, leaves_node, parse_step_scaling, scale_seconds
from perfcast.workload.blocks import build_step_work
from perfcast.workload.blocks.serving.kernels import formatted_product

SCALING = StepScaling(
    {"products": 2.0, "memory": 3.0, "node": 5.0, "network": 7.0},
    {"GH100": 1.5},
    {"infiniband": 1.1},
    {"flash2 hopper": 4.0},
)

MODEL = Transformer(
    num_layers=4,
    hidden_size=256,
    num_attention_heads=8,
    num_kv_heads=4,
    head_size=32,
    ffn_hidden_size=512,
    vocab_size=1024,
    is_gated=True,
    norm="rmsnorm",
)


def test_each_class_takes_its_own_factor() -> None:
    work = build_step_work(MODEL, Plan(), Training(framework="fsdp"), 512)
    seconds = dict.fromkeys(work.operations(), 1.0)
    training = Training(framework="fsdp", flash_version=2)
    scaled = scale_seconds(seconds, load_device("h100-sxm"), None, training, SCALING)
    by_name = {operation.name: value for operation, value in scaled.items()}
    assert (by_name["mm"], by_name["attention"]) == (3.0, 12.0)
    assert by_name["embedding"] == 3.0


def test_products_that_only_wait_for_their_weights_run_at_full_clocks_in_inference() -> None:
    waits, computes = (formatted_product(m, 4096, 4096, "bf16") for m in (1, 4096))
    seconds, device = {waits: 1.0, computes: 1.0}, load_device("h100-sxm")
    assert scale_seconds(seconds, device, scaling=SCALING) == {waits: 3.0, computes: 3.0}
    plain = replace(SCALING, factors={"products": 2.0})
    assert scale_seconds(seconds, device, scaling=plain) == {waits: 1.0, computes: 3.0}
    trained = scale_seconds(seconds, device, None, Training(), plain)
    assert trained == {waits: 3.0, computes: 3.0}


def test_collectives_differ_by_where_they_run() -> None:
    cluster = load_cluster("dgx-h100:16")
    inside = collective_operation("all_reduce", 2**20, range(8))
    between = collective_operation("all_reduce", 2**20, range(0, 16, 8))
    assert (leaves_node(inside, cluster), leaves_node(between, cluster)) == (False, True)
    scaled = scale_seconds({inside: 1.0, between: 1.0}, load_device("h100-sxm"), cluster, None, SCALING)
    assert scaled == {inside: 5.0, between: pytest.approx(7.7)}


def test_an_unknown_class_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "constants.toml"
    figure = '{ value = 1, unit = "1", source = "a" }'
    path.write_text(f'[sources]\na = "b"\n[factors]\nwishes = {figure}\n[dies]\n[networks]\n[attention]\n')
    with pytest.raises(CatalogError, match="wishes is no class"):
        parse_step_scaling(path)
