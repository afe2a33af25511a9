"""A check of this machine's GPU: every part apart, within a budget of time, kept as it is found.

A part that fails, hangs or kills its process is written as failed with its reason and its last lines, and the
others go on. What is done is kept beside the file; the next run goes on with what is not.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from perfcast.errors import CalibrationError, InputError
from perfcast.evidence.gpu_check.child import RESULT
from perfcast.evidence.gpu_check.parts import MACHINE, Part, chosen_parts, parts_of
from perfcast.evidence.gpu_check.result import CheckFile, PartResult
from perfcast.evidence.gpu_check.surroundings import environment_of_parts
from perfcast.files.looking import path_exists
from perfcast.files.reading import read_json, read_text
from perfcast.files.records import Kind, RecordFile, open_records
from perfcast.files.writing import make_folder, write_text_atomically
from perfcast.measure.collectives.launch import run_together

BUDGET_SECONDS = 1200.0
_LOG_LINES = 20
_MACHINE = Part(MACHINE, 15.0, 120.0)
#: Told of the share of the budget that is spent, and of what is being done.
OnProgress = Callable[[float | None, str], None]


@dataclass(frozen=True, kw_only=True)
class CheckRequest:
    """What is checked.

    Attributes:
        output: The file that is written, whole, after every part.
        device: 'cuda' (NVIDIA's or AMD's, as PyTorch calls both), or 'cpu' for a dry run.
        parts: Names; empty takes all.
    """

    output: Path
    device: str = "cuda"
    budget_seconds: float = BUDGET_SECONDS
    parts: tuple[str, ...] = ()
    restart: bool = False

    @property
    def folder(self) -> Path:
        """Where parts keep what they find."""
        return self.output.with_name(self.output.name + ".work")


def check_device(request: CheckRequest, on_progress: OnProgress = lambda share, what: None) -> CheckFile:
    """Run what is not done yet, part after part, and write the file.

    Raises:
        InputError: No GPU here, no such part, or a place that cannot be written.
    """
    parts = chosen_parts(request.device, request.parts)
    _check_gpu(request.device)
    make_folder(request.folder)
    began = time.monotonic()
    on_progress(0.0, "the machine")
    machine = _machine(request)
    with open_records(request.folder / "parts.jsonl", _kind(machine), restart=request.restart) as file:
        found = CheckFile(
            device=request.device, machine=machine, parts=(), budget_seconds=request.budget_seconds,
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )  # fmt: skip
        known = {part.name: part for part in file.records if part.status in ("done", "left_out")}
        order = [part.name for part in parts_of(request.device)]
        for part in parts:
            left = request.budget_seconds - (time.monotonic() - began)
            on_progress(1 - left / request.budget_seconds, part.name)
            if part.name not in known:
                known[part.name] = _run_part(request, part, left, file)
            # What an earlier run found of other parts stays in the file.
            found = replace(
                found, parts=tuple(sorted(known.values(), key=lambda one: _place(order, one.name)))
            )
            _write(found, request.output)
    return found


def _place(order: Sequence[str], name: str) -> int:
    return order.index(name) if name in order else len(order)


def _check_gpu(device: str) -> None:
    """Opens no device: one that serves a single process at a time must be free for the parts."""
    if device == "cpu":
        return
    import torch

    if not torch.cuda.is_available():
        built = torch.version.cuda or torch.version.hip
        why = "" if built else f": PyTorch {torch.__version__} is built for processors alone"
        raise InputError(
            f"PyTorch sees no CUDA or ROCm device here{why}. Run this with a Python whose PyTorch sees one; "
            "--device cpu is a dry run"
        )


def _machine(request: CheckRequest) -> Mapping[str, Any]:
    """What the machine is, as a process of its own says.

    Raises:
        InputError: The device cannot be used.
    """
    with tempfile.TemporaryDirectory(prefix="perfcast-") as name:
        found = _run_apart(request, _MACHINE, _MACHINE.most_seconds, Path(name))
    if found.status != "done" or found.details is None:
        last = f" ({found.log[-1]})" if found.log and found.log[-1] not in found.reason else ""
        raise InputError(f"this device cannot be used: {found.reason}{last}")
    return found.details


def _kind(machine: Mapping[str, Any]) -> Kind[PartResult]:
    devices = machine.get("devices") or [{"name": "cpu"}]
    asked = {"device": devices[0]["name"], "torch": machine["packages"].get("torch", "")}
    return Kind("gpu check", 1, PartResult.from_json, asked, "name another file (--output) or --restart")


def _run_part(
    request: CheckRequest, part: Part, left_seconds: float, file: RecordFile[PartResult]
) -> PartResult:
    needed = part.usual_seconds if request.device != "cpu" else 0.0
    if left_seconds <= needed:
        reason = (
            f"takes about {part.usual_seconds:.0f} s, and {max(left_seconds, 0):.0f} s of the budget are left"
        )
        return PartResult(name=part.name, status="no_time", reason=reason)
    with tempfile.TemporaryDirectory(prefix="perfcast-") as name:
        result = _run_apart(request, part, left_seconds, Path(name))
    file.append(result.to_json())
    return result


def _run_apart(request: CheckRequest, part: Part, left_seconds: float, place: Path) -> PartResult:
    """In a process of its own, which is ended with the budget, or when it takes far longer than it should."""
    limit = min(left_seconds, part.most_seconds)
    job = {"part": part.name, "device": request.device, "folder": str(request.folder.resolve())}
    write_text_atomically(place / "job.json", json.dumps(job))
    start = time.monotonic()

    def watch() -> None:
        if time.monotonic() - start > limit:
            allowed = "it is given" if limit < left_seconds else "that were left"
            raise CalibrationError(f"did not end within the {limit:.0f} s {allowed}, and was stopped")

    try:
        run_together([_command(place / "job.json")], place, environment_of_parts(request.folder), watch)
        return _result(place)
    except (CalibrationError, InputError) as error:
        reason = str(error).removeprefix("rank 0 ")
    except (KeyError, TypeError, ValueError) as error:
        reason = f"its result cannot be read: {type(error).__name__}: {error}"
    log = place / "rank0.log"
    said = read_text(log, what="the log of a part", errors="replace") if path_exists(log) else ""
    failed = PartResult(
        name=part.name, status="failed", wall_seconds=time.monotonic() - start, reason=reason,
        log=tuple(line for line in said.splitlines() if line.strip())[-_LOG_LINES:],
    )  # fmt: skip
    try:  # what it measured before it was stopped
        kept = _result(place)
    except (CalibrationError, InputError, KeyError, TypeError, ValueError):
        return failed
    return replace(failed, rows=kept.rows, details=kept.details)


def _result(place: Path) -> PartResult:
    found: Any = read_json(place / RESULT, what="the result of a part")
    return PartResult.from_json(found)


def _command(job: Path) -> Sequence[str]:
    return [sys.executable, "-m", "perfcast.evidence.gpu_check.child", str(job)]


def _write(found: CheckFile, output: Path) -> None:
    text = json.dumps(found.to_json(), indent=1, allow_nan=False) + "\n"
    write_text_atomically(output, text, updates=True)
