"""Small recordings in the format of PyTorch's profiler, written by hand. Times are microseconds."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfcast.traces.events import Trace
from perfcast.traces.kineto.reader import read_kineto


@dataclass
class Recording:
    """Events of one rank, added one by one; times are microseconds from 1000."""

    rank: int = 0
    world_size: int = 1
    device: str = "NVIDIA H100 80GB HBM3"
    events: list[dict[str, Any]] = field(default_factory=list)

    def step(self, number: int, start: float, duration: float) -> None:
        """A marked step."""
        self._add("user_annotation", f"ProfilerStep#{number}", start, duration, 1, {})

    def mark(self, name: str, start: float, duration: float, thread: int = 1, **args: Any) -> None:
        """A marked range; ``args`` as those of an operator."""
        own = {key.replace("_", " "): value for key, value in args.items()}
        self._add("user_annotation", name, start, duration, thread, own)

    def operator(self, name: str, start: float, duration: float, thread: int = 1, **args: Any) -> None:
        """An operator; ``args`` are those of the format with spaces for underscores."""
        self._add("cpu_op", name, start, duration, thread, {k.replace("_", " "): v for k, v in args.items()})

    def call(self, name: str, start: float, duration: float, correlation: int, thread: int = 1) -> None:
        """A call of the runtime."""
        self._add("cuda_runtime", name, start, duration, thread, {"correlation": correlation})

    def kernel(
        self, name: str, start: float, duration: float, correlation: int, stream: int = 7, **args: Any
    ) -> None:
        """A kernel."""
        own = {"correlation": correlation, "stream": stream, "device": 0, **args}
        self._add("kernel", name, start, duration, stream, own, process=0)

    def copy(self, name: str, start: float, duration: float, correlation: int, stream: int = 7) -> None:
        """A copy."""
        own = {"correlation": correlation, "stream": stream, "device": 0, "bytes": 1024}
        self._add("gpu_memcpy", name, start, duration, stream, own, process=0)

    def synchronization(
        self, kind: str, start: float, duration: float, correlation: int, stream: int = -1, **args: Any
    ) -> None:
        """A synchronisation event."""
        own = {"cuda_sync_kind": kind, "stream": stream, "correlation": correlation, "device": 0, **args}
        self._add("cuda_sync", kind, start, duration, stream, own, process=0)

    def module(self, name: str, start: float, duration: float) -> None:
        """A module's call."""
        self._add("python_function", f"nn.Module: {name}", start, duration, 1, {})

    def as_dict(self) -> dict[str, Any]:
        """The file's content."""
        return {
            "schemaVersion": 1,
            "deviceProperties": [{"id": 0, "name": self.device, "totalGlobalMem": 2**36, "numSms": 132}],
            "distributedInfo": {"backend": "nccl", "rank": self.rank, "world_size": self.world_size},
            "traceEvents": self.events,
        }

    def write(self, folder: Path, name: str = "") -> Path:
        """The file."""
        path = folder / (name or f"rank{self.rank}.json")
        path.write_text(json.dumps(self.as_dict()))
        return path

    def read(self, folder: Path) -> Trace:
        """As the package reads it."""
        return read_kineto(self.write(folder))

    def _add(
        self,
        category: str,
        name: str,
        start: float,
        duration: float,
        thread: int,
        args: Any,
        process: int = 99,
    ) -> None:
        self.events.append(
            {
                "ph": "X", "cat": category, "name": name, "pid": process, "tid": thread,
                "ts": 1000 + start, "dur": duration, "args": args,
            }
        )  # fmt: skip


def two_kernels(rank: int = 0) -> Recording:
    """A step of 100 µs: an operator at 10–40 launches two kernels, another at 50–90 waits for them.

    The launches are at 15–20 and 25–30; the kernels run at 22–42 and 42–62 on one stream; the wait, at 60–65,
    returns 3 µs after the second.
    """
    recording = Recording(rank)
    recording.step(1, 0, 100)
    recording.operator("aten::mm", 10, 30)
    recording.call("cudaLaunchKernel", 15, 5, 1)
    recording.call("cudaLaunchKernel", 25, 5, 2)
    recording.kernel("gemm_a", 22, 20, 1)
    recording.kernel("gemm_b", 42, 20, 2)
    recording.operator("aten::item", 50, 40)
    recording.call("cudaStreamSynchronize", 60, 5, 3)
    return recording
