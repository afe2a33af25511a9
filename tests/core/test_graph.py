from __future__ import annotations

from dataclasses import replace

from builders import allocation, elementwise, matmul, small_forecast
from perfcast.core.graph import Graph, Node, Phase
from perfcast.core.operation import MATRIX_KINDS, OperationKind

PRODUCT = matmul(4, 5, 6)  # 240 flops
FLASH_BACKWARD = replace(
    PRODUCT, name="attention_backward", flops=100, executed_flops=130, recompute_flops=30
)


def graph_of(*nodes: Node) -> Graph:
    return Graph(nodes, (PRODUCT, elementwise(1000), FLASH_BACKWARD), (), ())


def node(operation: int, phase: Phase = Phase.FORWARD, recomputed: bool = False) -> Node:
    return Node(operation, phase, "", (), (), recomputed)


def test_flops_count_products_once_per_node_and_element_wise_work_never():
    assert graph_of(node(0), node(0), node(1)).flops == 2 * 240


def test_a_product_that_repeats_forward_work_counts_as_recomputation_alone():
    graph = graph_of(node(0), node(0, Phase.BACKWARD, recomputed=True))
    assert graph.flops == 240
    assert graph.recompute_flops == 240


def test_what_a_flash_backward_computes_again_is_recomputation():
    graph = graph_of(node(2, Phase.BACKWARD))
    assert graph.flops == 100
    assert graph.recompute_flops == 30


def test_a_recomputed_attention_counts_its_own_flops_and_those_inside_it():
    assert graph_of(node(2, Phase.BACKWARD, recomputed=True)).recompute_flops == 130


def test_an_empty_graph_has_no_flops():
    assert (graph_of().flops, graph_of().recompute_flops) == (0, 0)


def test_only_an_allocation_is_free():
    assert allocation(8).is_free
    assert not PRODUCT.is_free
    assert not replace(PRODUCT, memory_traffic_bytes=0, flops=0).is_free


def test_matrix_units_serve_products_convolutions_attention_and_recurrence():
    assert PRODUCT.uses_matrix_units
    assert not elementwise(8).uses_matrix_units
    assert OperationKind.CONVOLUTION in MATRIX_KINDS
    assert OperationKind.SOFTMAX not in MATRIX_KINDS


def test_an_attribute_is_found_by_name():
    assert PRODUCT.attribute("k") == 6
    assert PRODUCT.attribute("heads") is None


def test_equal_operations_are_one_key():
    assert len({matmul(4, 5, 6), matmul(4, 5, 6), matmul(4, 6, 5)}) == 2


def test_mfu_counts_model_flops_and_hfu_recomputed_ones_too():
    forecast = replace(
        small_forecast(), step_seconds=2.0, flops=300, recompute_flops=100, peak_flops_per_second=1000.0
    )
    assert forecast.mfu == 0.15
    assert forecast.hfu == 0.2
    assert replace(forecast, batch_size=8).samples_per_second == 4.0


def test_a_step_that_runs_nothing_has_neither_mfu_nor_throughput():
    forecast = replace(small_forecast(), step_seconds=0.0)
    assert (forecast.mfu, forecast.hfu, forecast.samples_per_second) == (0.0, 0.0, 0.0)


def test_a_peak_of_exactly_the_capacity_fits_and_one_byte_more_does_not():
    memory = replace(small_forecast().memory, capacity_bytes=1000, peak_bytes=1000)
    assert memory.fits
    assert not replace(memory, peak_bytes=1001).fits
