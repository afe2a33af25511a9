from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch.profiler import ExecutionTraceObserver

from perfcast.replays.play.operators import InstalledOperators
from perfcast.replays.program.draft import Draft
from perfcast.replays.program.program import CallKind
from perfcast.replays.program.schema_text import parse_schema
from perfcast.replays.rewrite.rewrite import DeviceTarget, rewritten
from perfcast.replays.rewrite.tables import DTYPE_NUMBERS, EQUIVALENTS, ON_CPU, Equivalent
from perfcast.traces.execution_trace.nodes import TensorUse
from perfcast.traces.execution_trace.reader import read_execution_trace

ENTRIES = [(device, name) for device, table in EQUIVALENTS.items() for name in table]


def use(number: int, *shape: int) -> TensorUse:
    count = int(torch.Size(shape).numel())
    return TensorUse(number, number + 100, number, 0, count, 4, "cuda:0", "float32", shape, None)


def on_cpu(schema: str, arguments: tuple, outputs: tuple[TensorUse, ...]) -> Draft:
    parsed = parse_schema(schema)
    draft = Draft(1, CallKind.OPERATOR, schema, parsed.operator, parsed.overload, arguments, outputs)
    return rewritten(draft, DeviceTarget("cpu", {"cuda:0": "cpu", "cuda": "cpu"}), InstalledOperators())


def installed_schema(name: str) -> str:
    space, _, operator = name.partition("::")
    packet = getattr(getattr(torch.ops, space), operator)
    return str(getattr(packet, packet.overloads()[0])._schema)


@pytest.mark.parametrize(("device", "name"), ENTRIES)
def test_every_replacement_is_an_operator_of_pytorch_with_as_many_arguments(device: str, name: str):
    entry = EQUIVALENTS[device][name]
    parsed = parse_schema(entry.schema)
    overload = getattr(torch.ops.aten, parsed.operator.partition("::")[2]).default
    assert [one.name for one in overload._schema.arguments] == [one.name for one in parsed.arguments]
    assert len(entry.arguments) == len(parsed.arguments)


def named(entry: Equivalent) -> list[str]:
    names = [source if isinstance(source, str) else getattr(source, "name", "") for source in entry.arguments]
    return [name for name in names if name]


@pytest.mark.parametrize(("device", "name"), ENTRIES)
def test_what_a_replacement_takes_is_an_argument_of_the_recorded_operator(device: str, name: str):
    if not torch._C._dispatch_has_kernel(name):
        pytest.skip("an operator of an older PyTorch")
    known = {one.name for one in parse_schema(installed_schema(name)).arguments}
    assert set(named(EQUIVALENTS[device][name])) <= known


def test_cudnn_batch_norm_becomes_the_processors():
    schema = (
        "aten::cudnn_batch_norm(Tensor input, Tensor weight, Tensor? bias, Tensor? running_mean, "
        "Tensor? running_var, bool training, float exponential_average_factor, float epsilon) -> "
        "(Tensor, Tensor, Tensor, Tensor)"
    )
    tensors = [use(1, 2, 3, 4, 4), *(use(number, 3) for number in range(2, 6))]
    results = (use(6, 2, 3, 4, 4), use(7, 3), use(8, 3), use(9, 0))
    found = on_cpu(schema, (*tensors, True, 0.1, 1e-5), results)
    assert found.operator == "aten::native_batch_norm"
    assert [getattr(one, "tensor_id", one) for one in found.arguments] == [1, 2, 3, 4, 5, True, 0.1, 1e-5]
    assert [one.tensor_id for one in found.outputs if one is not None] == [6, 7, 8]
    assert {one.device for one in found.outputs if one is not None} == {"cpu"}


def test_efficient_attention_becomes_the_processors_with_its_mask_and_without_dropout():
    schema = (
        "aten::_scaled_dot_product_efficient_attention(Tensor query, Tensor key, Tensor value, "
        "Tensor? attn_bias, bool compute_log_sumexp, float dropout_p=0.0, bool is_causal=False, *, "
        "float? scale=None) -> (Tensor output, Tensor log_sumexp, Tensor philox_seed, Tensor philox_offset)"
    )
    tensors = [use(number, 2, 4, 8, 16) for number in (1, 2, 3)]
    mask, results = use(4, 2, 1, 8, 8), (use(5, 2, 4, 8, 16), use(6, 2, 4, 8), use(7), use(8))
    found = on_cpu(schema, (*tensors, mask, True, 0.1, False, 0.25), results)
    values: Mapping[str, object] = {
        described.name: getattr(value, "tensor_id", value)
        for described, value in zip(found.parsed.arguments, found.arguments, strict=True)
    }
    assert values == {"query": 1, "key": 2, "value": 3, "dropout_p": 0.0, "is_causal": False,
                      "attn_mask": 4, "scale": 0.25}  # fmt: skip
    assert [one.tensor_id for one in found.outputs if one is not None] == [5, 6]


def test_cudnn_dropout_draws_by_the_share_that_is_dropped():
    schema = "aten::_fused_dropout(Tensor self, float p, Generator? generator=None) -> (Tensor, Tensor)"
    found = on_cpu(schema, (use(1, 4), 0.9, None), (use(2, 4), use(3, 4)))
    assert found.operator == "aten::native_dropout"
    assert found.arguments[1] == pytest.approx(0.1)


def test_pinning_is_a_copy_on_a_processor():
    assert ON_CPU["aten::pin_memory"].schema.startswith("aten::clone(")


@pytest.mark.parametrize(("word", "number"), [("int64", 4), ("float32", 6), ("bool", 11), ("bfloat16", 15)])
def test_numbers_of_element_types_are_pytorchs(tmp_path: Path, word: str, number: int):
    path = tmp_path / "made.json"
    observer = ExecutionTraceObserver().register_callback(str(path))
    observer.start()
    torch.empty(2, dtype=getattr(torch, word))
    observer.stop()
    observer.unregister_callback()
    made = next(node for node in read_execution_trace(path).nodes if node.name == "aten::empty")
    assert made.inputs[1] == number == DTYPE_NUMBERS[word]
