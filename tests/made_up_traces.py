"""Small hand-written traces: events and nodes as PyTorch's profiler writes them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from perfcast.traces.events import Trace
from perfcast.traces.execution_trace.nodes import ExecutionTrace
from perfcast.traces.execution_trace.reader import read_execution_trace
from perfcast.traces.kineto.reader import read_kineto


def event(
    name: str,
    start: float,
    duration: float,
    *,
    category: str = "cpu_op",
    process: int = 1,
    thread: int = 1,
    **args: Any,
) -> dict[str, Any]:
    """A complete event; times in microseconds; ``external_id`` and the like go by the file's own keys."""
    return {
        "ph": "X", "cat": category, "name": name, "pid": process, "tid": thread, "ts": start, "dur": duration,
        "args": {key.replace("_", " "): value for key, value in args.items()},
    }  # fmt: skip


def launch(start: float, duration: float, correlation: int, name: str = "cudaLaunchKernel") -> dict[str, Any]:
    """A call of the runtime."""
    return event(name, start, duration, category="cuda_runtime", correlation=correlation)


def kernel(
    name: str, start: float, duration: float, correlation: int, stream: int = 7, **args: Any
) -> dict[str, Any]:
    """Work on a stream of device 0."""
    return event(
        name, start, duration, category="kernel", process=0, thread=stream, correlation=correlation,
        stream=stream, device=0, **args,
    )  # fmt: skip


def document(events: list[dict[str, Any]], **header: Any) -> dict[str, Any]:
    """A timeline's document."""
    return {"schemaVersion": 1, **header, "traceEvents": events}


def write(path: Path, content: Any) -> Path:
    """JSON; packed where the name ends in .gz."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def timeline(folder: Path, events: list[dict[str, Any]], **header: Any) -> Trace:
    """The trace of some events, by way of a file."""
    return read_kineto(write(folder / "timeline.json", document(events, **header)))


def tensor(tensor_id: int, storage_id: int, shape: list[int], *, offset: int = 0, size: int = 4) -> list[Any]:
    """A tensor value of an execution trace on the processor."""
    count = 1
    for extent in shape:
        count *= extent
    return [tensor_id, storage_id, offset, count, size, "cpu"]


def node(
    node_id: int,
    name: str,
    parent: int = 2,
    *,
    inputs: list[tuple[Any, str, Any]] = [],  # noqa: B006
    outputs: list[tuple[Any, str, Any]] = [],  # noqa: B006
    schema: str | None = None,
    strides: list[Any] | None = None,
    **attributes: Any,
) -> dict[str, Any]:
    """A node of schema 1.1.1; inputs and outputs are (value, type, shape)."""
    attributes = {"rf_id": node_id, "seq_id": -1, "scope": 0, "tid": 1, **attributes}
    attributes["op_schema"] = (f"{name}()" if "::" in name else "") if schema is None else schema
    return {
        "id": node_id, "name": name, "ctrl_deps": parent,
        "inputs": _side(inputs, None), "outputs": _side(outputs, strides),
        "attrs": [{"name": key, "type": "", "value": value} for key, value in attributes.items()],
    }  # fmt: skip


def _side(values: list[tuple[Any, str, Any]], strides: list[Any] | None) -> dict[str, Any]:
    side = {
        "values": [value for value, _, _ in values],
        "types": [kind for _, kind, _ in values],
        "shapes": [shape for _, _, shape in values],
    }
    return side if strides is None else {**side, "strides": strides}


ROOTS = [
    node(1, "[pytorch|profiler|execution_trace|process]", 1, rf_id=0, tid=0),
    node(2, "[pytorch|profiler|execution_trace|thread]", 1, rf_id=0),
]


def execution_document(nodes: list[dict[str, Any]], schema: str = "1.1.1-chakra.0.0.4") -> dict[str, Any]:
    """An execution trace's document; roots are added."""
    return {
        "schema": schema,
        "pid": 1,
        "time": "2026-01-01 00:00:00",
        "start_ts": 1,
        "nodes": [*ROOTS, *nodes],
    }


def execution_trace(
    folder: Path, nodes: list[dict[str, Any]], schema: str = "1.1.1-chakra.0.0.4"
) -> ExecutionTrace:
    """The trace of some nodes, by way of a file."""
    return read_execution_trace(write(folder / "nodes.json", execution_document(nodes, schema)))
