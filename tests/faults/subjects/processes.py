"""Work of several processes, and what is written at the end: profiles of a cluster, recordings, reports."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from faults.kills import Subject
from faults.subjects.shared import check_never_fewer, it_or_a_child, records_of, wait_until_gone
from perfcast.cli.main import run
from perfcast.errors import CalibrationError, InputError
from perfcast.files.records import count_lines
from perfcast.measure.collectives import store
from perfcast.measure.collectives.plan import make_plan
from perfcast.measure.collectives.profile import profile_here
from perfcast.traces.record.launch import ranks_in, record
from perfcast.traces.record.recorder import Request

# ---- perfcast mesh profile -----------------------------------------------------------------------

PLAN = replace(
    make_plan((), 2, "gloo", ("all_reduce", "all_gather", "broadcast", "send"), 4, 12),
    rounds=2,
    sizes_bytes=tuple(4**k for k in range(1, 9)),
)


def _measurements(folder: Path) -> Path:
    return store.measurements_path(folder / "profile.json")


def _profile(folder: Path) -> None:
    try:
        profile_here(PLAN, folder / "profile.json")
    except CalibrationError as error:
        if "no curve can be fitted" not in str(error):  # so short a message may cost the same, up to noise
            raise


def _profiled(folder: Path) -> object:
    keys = {record.key for record in records_of(_measurements(folder), store.KIND)}
    return sorted(keys)


def _check_profile(folder: Path) -> None:
    wait_until_gone(str(folder))  # ranks leave with what started them
    check_never_fewer(folder, len(records_of(_measurements(folder), store.KIND)))


def _measures(folder: Path) -> Callable[[], bool]:
    path = _measurements(folder)
    before = count_lines(path)
    return lambda: count_lines(path) > before


# ---- perfcast trace record -----------------------------------------------------------------------

PROGRAM = """
import sys, time
import torch
torch.set_num_threads(1)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
open(sys.argv[1], "w").close()
for _ in range(30):
    optimizer.zero_grad()
    model(torch.randn(16, 64)).sum().backward()
    optimizer.step()
    time.sleep(0.03)
"""


def _record(folder: Path) -> None:
    (folder / "program.py").write_text(PROGRAM)
    (folder / "steps").unlink(missing_ok=True)
    command = [sys.executable, str(folder / "program.py"), str(folder / "steps")]
    done = record(command, Request(str(folder / "recording"), 2, 3, 2))
    if done.exit_code:
        raise RuntimeError(f"the program ended with {done.exit_code}")


def _recorded(folder: Path) -> object:
    return [
        (rank.rank, rank.num_steps, rank.problem, {kind: place.name for kind, place in rank.files.items()})
        for rank in ranks_in(folder / "recording")
    ], sorted(path.name for path in (folder / "recording").iterdir())


def _check_recording(folder: Path) -> None:
    """A program whose recorder was killed goes on and may finish its recording, whole, or leave none."""
    wait_until_gone(str(folder / "program.py"))
    ranks = ranks_in(folder / "recording") if (folder / "recording").exists() else ()
    for rank in ranks:
        assert all(place.exists() for place in rank.files.values())
    if ranks:  # a whole recording is never mixed with another: the next one is made elsewhere
        (folder / "recording").rename(folder / f"recording{len(list(folder.iterdir()))}")


def _steps(folder: Path) -> Callable[[], bool]:
    (folder / "steps").unlink(missing_ok=True)
    return (folder / "steps").exists


# ---- --html, --json, --timeline ------------------------------------------------------------------

ASKED = ("llama3-8b", "--cluster", "dgx-h100:16", "--plan", "tp=2,pp=4", "--batch-size", "64")


def _report(folder: Path) -> None:
    outputs = [f"--{kind}={folder / name}" for kind, name in OUTPUTS.items()]
    code = run(["predict", *ASKED, *outputs])
    if code:  # what was said of it, by what the command line would say
        said = (folder.parent / "log.txt").read_text().splitlines()[-1]
        raise InputError(said) if code == 2 else RuntimeError(said)


OUTPUTS = {"html": "page.html", "json": "answer.json", "timeline": "timeline.json"}


def _reported(folder: Path) -> object:
    """Sizes and contents, but for the folder's name, which the command that is printed has."""
    texts = {name: (folder / name).read_text().replace(str(folder), "") for name in OUTPUTS.values()}
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}


def _check_report(folder: Path) -> None:
    """Each file is whole or not there, and nothing else stays, but for a rename that was under way."""
    for path in folder.iterdir():
        if path.suffix == ".json":
            json.loads(path.read_text())
        elif path.suffix == ".html":
            assert path.read_text().rstrip().endswith("</html>")
        else:
            assert path.suffix == ".tmp", path


SUBJECTS = (
    Subject("mesh profile", _profile, _profiled, _check_profile, _measures, it_or_a_child, in_calls=False),
    Subject("trace record", _record, _recorded, _check_recording, _steps, it_or_a_child, in_calls=False),
    Subject("reports (--html, --json, --timeline)", _report, _reported, _check_report),
)
