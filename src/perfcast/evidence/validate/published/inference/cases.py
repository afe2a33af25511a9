"""Lines of published inference measurements → cases: what was run, and how long prompts and tokens took.

Two tables are read. ``inference_splitwise_perf_model``: vLLM on one server, a
line for each repeat with the time of all prompts and the mean time of a token; ``inference``: what its column
'metric' says, of FasterTransformer (and Megatron beside it) a whole request, prompt and all tokens, of
Splitwise the medians of the repeats; throughput under load states no batch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perfcast.catalogs.clusters import load_cluster_entry
from perfcast.catalogs.devices import find_device_name
from perfcast.catalogs.models import load_model
from perfcast.core.dtype import DTYPES_BY_LABEL
from perfcast.core.machine.cluster import Cluster
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.errors import InputError
from perfcast.evidence.dataset.table import find_tables, read_frame
from perfcast.evidence.validate.runs.lines import Line, UnreadableError, read_or_reason, spelled
from perfcast.units import MILLI

SPLITWISE, PRINTED = "inference_splitwise_perf_model", "inference"
TABLES = (SPLITWISE, PRINTED)
#: Columns that are measured, or say where a line stands; the rest is configuration.
_MEASURED = (
    "prompt_time",
    "token_time",
    "e2e_time",
    "peak_power",
    "average_power",
    "value",
    "notes",
)
#: Servers by the architecture of their devices: all of these sources ran on NVIDIA's own.
_SERVERS = {"a100": "dgx-a100", "h100": "dgx-h100"}
_DIMS = re.compile(r"dims (\d+)L x (\d+)x(\d+), vocab (\d+)")
_THROUGHPUT = "total output throughput"


@dataclass(frozen=True, kw_only=True)
class InferenceCase:
    """One measured time.

    Attributes:
        row: 0-based line; of a table with several times in a line, prefixed.
        source: Who measured.
        kind: 'prefill' (all prompts of a batch), 'decode' (one token of each) or 'request'.
        framework: That ran.
        issues_kernels: Whether its host issues every kernel of a token; else a CUDA graph is replayed, or
            the host is ahead.
        plan: With the batch as one micro-batch.
        prompt_length, output_length: Tokens of each sequence.
        skipped: Why there is no forecast; model, cluster and plan are then None.
    """

    table: str
    row: int | str
    source: str
    device: str
    catalog_device: str | None
    kind: str
    framework: str
    issues_kernels: bool
    model: Transformer | None
    cluster: Cluster | None
    plan: Plan | None
    dtype: str
    prompt_length: int
    output_length: int
    measured_seconds: float | None
    configuration: Mapping[str, Any]
    skipped: str | None = None


@dataclass(frozen=True, slots=True)
class _Metric:
    """What a printed figure is the time of, and of which program."""

    kind: str
    framework: str
    issues_kernels: bool


#: Times, by their name in the table.
_METRICS = {
    "end-to-end latency": _Metric("request", "fastertransformer", False),
    "end-to-end latency (Megatron baseline)": _Metric("request", "megatron", True),
    "prefill (prompt) time": _Metric("prefill", "vllm", True),
    "decode (per-token) time": _Metric("decode", "vllm", True),
}


@dataclass(frozen=True, slots=True)
class _Setup:
    """What a line says was run."""

    device: str
    model: Transformer
    cluster: Cluster
    plan: Plan
    dtype: str
    prompt_length: int
    output_length: int


def read_inference_cases(places: Sequence[Path]) -> list[InferenceCase]:
    """All cases of both tables in folders, or of single files; none where neither is there."""
    cases: list[InferenceCase] = []
    readers = ((SPLITWISE, _read_splitwise), (PRINTED, _read_printed))
    for table, read in readers:
        for path in find_tables(places, (table,)):
            for row, cells in enumerate(read_frame(path).to_dicts()):
                cases.extend(read(row, cells))
    return cases


def _read_splitwise(row: int, cells: Mapping[str, Any]) -> Iterator[InferenceCase]:
    """Prompts and tokens of one repeat (vLLM of 2023, whose host issues every kernel)."""
    line = Line(cells)
    setup, skipped = read_or_reason(lambda: _splitwise_setup(line))
    for kind, column in (("prefill", "prompt_time"), ("decode", "token_time")):
        metric = _Metric(kind, "vllm", True)
        device, milliseconds = line.text("hardware"), line.positive(column)
        yield _case(
            SPLITWISE, f"{kind}:{row}", "splitwise", device, metric, setup, skipped, milliseconds, cells
        )


def _read_printed(row: int, cells: Mapping[str, Any]) -> Iterator[InferenceCase]:
    """What a line's metric says; throughput and memory are listed as what cannot be forecast."""
    line = Line(cells)
    name = line.text("metric")
    metric = _METRICS.get(name)
    setup: _Setup | None
    if metric is not None:
        setup, skipped = read_or_reason(lambda: _printed_setup(line))
    else:
        metric = _Metric("throughput" if name == _THROUGHPUT else "other", "", False)
        setup, skipped = None, "incomplete: batch" if name == _THROUGHPUT else "unsupported operation"
    milliseconds = line.positive("value") if name in _METRICS else None
    source = line.text("source").partition("@")[0]
    source = "splitwise" if source.startswith("Splitwise") else source
    yield _case(PRINTED, row, source, line.text("gpu"), metric, setup, skipped, milliseconds, cells)


def _case(
    table: str,
    row: int | str,
    source: str,
    device: str,
    metric: _Metric,
    setup: _Setup | None,
    skipped: str | None,
    milliseconds: float | None,
    cells: Mapping[str, Any],
) -> InferenceCase:
    if skipped is None and milliseconds is None:
        skipped = "impossible value"
    catalog_device = setup.device if setup else find_device_name(device.partition(" (")[0])
    return InferenceCase(
        table=table,
        row=row,
        source=source,
        device=spelled(device),
        catalog_device=catalog_device,
        kind=metric.kind,
        framework=metric.framework,
        issues_kernels=metric.issues_kernels,
        model=setup.model if setup else None,
        cluster=setup.cluster if setup else None,
        plan=setup.plan if setup else None,
        dtype=setup.dtype if setup else "",
        prompt_length=setup.prompt_length if setup else 0,
        output_length=setup.output_length if setup else 0,
        measured_seconds=None if milliseconds is None else milliseconds * MILLI,
        configuration={k: v for k, v in cells.items() if k not in _MEASURED},
        skipped=skipped,
    )


def _splitwise_setup(line: Line) -> _Setup:
    device = find_device_name(line.text("hardware"))
    if device is None:
        raise UnreadableError("unknown device")
    plan = _plan(line.whole("tensor_parallel"), 1, line.whole("batch_size"))
    return _Setup(
        device,
        _named_model(line),
        _server(device, plan),
        plan,
        "fp16",
        line.whole("prompt_size"),
        line.whole("token_size"),
    )


def _printed_setup(line: Line) -> _Setup:
    device = find_device_name(line.text("gpu").partition(" (")[0])
    if device is None:
        raise UnreadableError("unknown device")
    dims = _DIMS.search(line.text("notes"))
    model = gpt(*map(int, dims.groups())) if dims else _named_model(line)
    plan = _plan(line.whole("tp"), line.whole("pp"), line.whole("batch"))
    return _Setup(
        device,
        model,
        _server(device, plan),
        plan,
        _dtype(line),
        line.whole("input_len"),
        line.whole("output_len"),
    )


def _dtype(line: Line) -> str:
    """'fp16 (assumed)' is fp16."""
    name = line.text("dtype").partition(" ")[0]
    if name not in DTYPES_BY_LABEL:
        raise UnreadableError("incomplete: dtype" if not name else "impossible value")
    return name


def _plan(tensor_parallel: int, pipeline_parallel: int, batch_size: int) -> Plan:
    return Plan(
        tensor_parallel=tensor_parallel, pipeline_parallel=pipeline_parallel, micro_batch_size=batch_size
    )


def _server(device: str, plan: Plan) -> Cluster:
    name = next((name for part, name in _SERVERS.items() if part in device), None)
    if name is None:
        raise UnreadableError("unknown device")
    return replace(load_cluster_entry(name).of_size(plan.world_size), device=device)


def _named_model(line: Line) -> Transformer:
    """BLOOM, or a transformer of the catalog."""
    from perfcast.prediction.model import read_model

    name = line.text("model")
    if name.startswith("bloom"):
        return bloom_176b()
    try:
        return read_model(load_model(name).name).sizes
    except InputError:
        raise UnreadableError("incomplete: model") from None


def gpt(num_layers: int, heads: int, head_size: int, vocab_size: int) -> Transformer:
    """GPT-3's shape with sizes of its own (Brown et al. 2020, table 2.1)."""
    hidden = heads * head_size
    return Transformer(
        num_layers=num_layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        num_kv_heads=heads,
        head_size=head_size,
        ffn_hidden_size=4 * hidden,
        vocab_size=vocab_size,
        positions="learned",
        max_positions=2048,
        has_fused_qkv=True,
    )


def bloom_176b() -> Transformer:
    """BigScience: BLOOM, 2022, table 3: ALiBi, a norm behind the embedding."""
    shape = gpt(70, 112, 128, 250_880)
    return replace(shape, positions="none", max_positions=0, has_embedding_norm=True)
