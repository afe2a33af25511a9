"""A job's figures as the 3D-parallelism searcher takes them."""

import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.catalogs.devices import load_device
from perfcast.core.model.transformer import Transformer
from perfcast.core.model.weights import count_parameters
from perfcast.published.searcher_3d.job import describe_cluster, describe_model
from perfcast.workload.blocks.step.flops import flops_per_sequence

MODEL = Transformer(
    num_layers=4, hidden_size=64, num_attention_heads=8, num_kv_heads=8, head_size=8, ffn_hidden_size=256,
    vocab_size=512,
)  # fmt: skip


def test_a_cluster_is_its_nodes_their_devices_and_two_links():
    cluster = load_cluster("dgx-h100:64")
    found = describe_cluster(cluster, load_device("h100-sxm"), "bf16")
    assert (found.num_nodes, found.devices_per_node, found.num_devices) == (8, 8, 64)
    # The dense bf16 peak of the H100 SXM is 989.4 TFLOP/s.
    assert found.gpu_gigaflops_per_second == pytest.approx(989_400, rel=1e-3)
    assert found.node_link_gigabytes_per_second > found.network_gigabytes_per_second > 0


def test_a_model_is_its_work_its_sums_and_its_gradients():
    found = describe_model(MODEL, 6, 128)
    # Two bytes of 6 · 128 tokens · 64 numbers; four sums of it in each of four layers.
    assert found.layer_activation_megabytes == (pytest.approx(0.098304),)
    assert found.tensor_traffic_megabytes == pytest.approx(16 * 0.098304)
    assert found.gradient_megabytes == pytest.approx(2 * count_parameters(MODEL) / 1e6)
    # A third of a training step's work is its forward.
    assert 3 * sum(found.layer_teraflops) == pytest.approx(6 * flops_per_sequence(MODEL, 128) / 1e12)
    assert found.num_layers == 4
