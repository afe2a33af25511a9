"""One model of every architecture in the catalog, in every mode that it has."""

from __future__ import annotations

import pytest

from perfcast.catalogs.devices import load_device
from perfcast.catalogs.models import load_models
from perfcast.core.operation import OperationKind
from perfcast.errors import InputError
from perfcast.prediction import Request, build_graph

HALF_PRECISION_DEVICE = "h100-sxm"
CANNOT_DECODE = {"masked-lm", "image-classification", "recommendation"}


#: transformers' own modules solve a triangular system in each chunk, of which there is no rule, and cannot be
#: decoded under fake tensors; plans build these models from their sizes.
NOT_CAPTURED = {"Qwen3_5MoeForCausalLM"}


def smallest_of_each_architecture() -> list[str]:
    smallest: dict[str, str] = {}
    entries = load_models()
    for name, entry in entries.items():
        if entry.architecture in NOT_CAPTURED:
            continue
        best = smallest.get(entry.architecture)
        if best is None or entry.parameters.value < entries[best].parameters.value:
            smallest[entry.architecture] = name
    return sorted(smallest.values())


@pytest.mark.parametrize("mode", ["train", "prefill", "decode"])
@pytest.mark.parametrize("name", smallest_of_each_architecture())
def test_every_operator_has_a_rule(name: str, mode: str) -> None:
    entry = load_models()[name]
    length = None if entry.sequence_length is None else 64
    request = Request(model=name, mode=mode, batch_size=2, sequence_length=length, dtype="bf16")
    if mode == "decode" and (entry.task in CANNOT_DECODE or entry.architecture == "BertLMHeadModel"):
        with pytest.raises(InputError, match="no decode step"):
            build_graph(request, load_device(HALF_PRECISION_DEVICE))
        return
    graph, _ = build_graph(request, load_device(HALF_PRECISION_DEVICE))
    assert graph.flops > 0
    assert [o.name for o in graph.operations if o.kind is OperationKind.UNKNOWN] == []
