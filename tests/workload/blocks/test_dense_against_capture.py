"""A step built from sizes against the graph of transformers' own module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from perfcast.catalogs.models import load_model
from perfcast.core.operation import AttributeValue, Operation, OperationKind
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.workload.blocks import build_step_work
from perfcast.workload.capture.capture import CaptureOptions, capture
from perfcast.workload.models.huggingface import build_program
from perfcast.workload.models.transformer import read_transformer
from perfcast.workload.shape import StepShape
from perfcast.workload.step import OptimizerChoice

LAYERS, BATCH, SEQUENCE = 2, 2, 256
_SIZES = (
    "batch",
    "m",
    "n",
    "k",
    "layout",
    "heads",
    "kv_heads",
    "head_size",
    "num_queries",
    "num_keys",
    "causal",
)
Key = tuple[str, tuple[AttributeValue | None, ...], int]


def shapes(operations: Iterable[Operation]) -> Counter[Key]:
    """Products and attention by all that prices them; a bias does not."""
    return Counter(
        (o.name.replace("addmm", "mm"), tuple(o.attribute(size) for size in _SIZES), o.executed_flops)
        for o in operations
        if o.kind in (OperationKind.MATMUL, OperationKind.ATTENTION)
    )


@pytest.mark.parametrize("name", ["llama3-8b", "opt-1.3b"])
def test_products_and_attention_are_those_of_the_captured_graph(name: str) -> None:
    entry = load_model(name)
    depth = "n_layer" if "n_layer" in entry.config else "num_hidden_layers"
    config = dict(entry.config) | {depth: LAYERS}
    if "layer_types" in config:
        config["layer_types"] = config["layer_types"][:LAYERS]
    shape = StepShape(mode="train", batch_size=BATCH, sequence_length=SEQUENCE)
    options = CaptureOptions(optimizer=OptimizerChoice("none"))
    graph, _ = capture(lambda: build_program(config, entry.architecture, shape), options)
    model = read_transformer(config, entry.architecture)
    training = Training(framework="pytorch", dtype="fp32", optimizer="none")
    work = build_step_work(model, Plan(micro_batch_size=BATCH), training, SEQUENCE)
    built = Counter[Key]()
    for run in work.stages[0].chunks[0]:
        layer = work.layers[run.layer]
        for _ in range(run.count):
            built += shapes(call.operation for call in (*layer.forward, *layer.backward))
    assert built == shapes(graph.operations[node.operation] for node in graph.nodes)
