"""A program with two streams, recorded here and played again: its step beside that of its replay."""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
from pathlib import Path

from perfcast.errors import CalibrationError
from perfcast.evidence.gpu_check.place import Found, Place
from perfcast.evidence.gpu_check.result import CheckRow
from perfcast.files.writing import write_text_atomically
from perfcast.replays.judge.fidelity import Pair

_SKIPPED, _TIMED, _WATCHED = 10, 15, 6
_SECONDS = 300
_PROGRAM = '''\
"""A training whose second half runs on a stream of its own."""
import sys

import torch
from torch import nn

device, width, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
model = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)).to(device)
beside = nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width)).to(device)
optimizer = torch.optim.AdamW([*model.parameters(), *beside.parameters()], lr=1e-4)
inputs = torch.randn(256, width, device=device)
stream = torch.cuda.Stream() if device == "cuda" else None
for _ in range(steps):
    if stream is None:
        other = beside(inputs)
    else:
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            other = beside(inputs)
        torch.cuda.current_stream().wait_stream(stream)
    loss = (model(inputs) + other).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
'''


def check_replay(place: Place) -> Found:
    """Record with ``perfcast trace record``, replay with the host's gaps in proportion."""
    with tempfile.TemporaryDirectory(prefix="perfcast-") as name:  # a folder holds one recording
        return _recorded_and_played(place, Path(name))


def _recorded_and_played(place: Place, folder: Path) -> Found:
    from perfcast.replays.prepare import prepare
    from perfcast.replays.replay import replay
    from perfcast.replays.request import PlayOptions, ReplayRequest

    program = folder / "program.py"
    write_text_atomically(program, _PROGRAM)
    recording = folder / "recording"
    own = [sys.executable, str(program), place.device, "128" if place.is_dry else "2048",
           str(_SKIPPED + 2 * _TIMED + 2 * _WATCHED + 10)]  # fmt: skip
    options = [
        "--skip",
        str(_SKIPPED),
        "--timed",
        str(_TIMED),
        "--steps",
        str(_WATCHED),
        "--out",
        str(recording),
    ]
    command = [sys.executable, "-m", "perfcast", "trace", "record", *options, "--", *own]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_SECONDS, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise CalibrationError(f"the program could not be recorded (exit code {done.returncode}): {said}")
    play = PlayOptions(repeats=5 if place.is_dry else 30, max_seconds=20.0 if place.is_dry else 60.0)
    request = ReplayRequest(traces=(str(recording),), play=play, host_gaps="scaled")
    (found,) = replay(request, prepare(request))
    rows = [_row(f"replay: {pair.label}", pair) for pair in found.step]
    rows += [_row(f"replay: kernels of {pair.label}", pair) for pair in found.kinds]
    memory = CheckRow(
        what="replay: memory",
        unit="B",
        measured=_known(found.memory.recorded),
        forecast=_known(found.memory.replayed),
    )
    details = {
        "operation_coverage": found.operation_coverage, "time_coverage": _known(found.time_coverage),
        "notes": list(found.notes), "num_replaced": found.num_replaced,
    }  # fmt: skip
    return Found((*rows, memory), details)


def _row(what: str, pair: Pair) -> CheckRow:
    note = "forecast is the replay, measured the recording"
    return CheckRow(
        what=what, unit="s", measured=_known(pair.recorded), forecast=_known(pair.replayed), note=note
    )


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
