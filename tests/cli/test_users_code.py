"""Code that the user names ends no answer silently, and says nothing in its place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

PROGRAM = r"""
import logging, os, sys, time, torch
class Odd(BaseException): pass
def net(): return torch.nn.Linear(8, 8), torch.zeros(2, 8)
def prints(): print("hello"); os.write(1, b"raw"); return net()
def closes(): sys.stdout.close(); os.close(1); return net()
def slow():
    time.sleep(0.6)
    logging.getLogger("own").warning("\x1b[31mlogged")
    return net()
def leaves(): sys.exit(0)
def odd(): raise Odd("no")
def reads(): input("? "); return net()
class Leaves(torch.nn.Linear):
    def forward(self, x): sys.exit(0)
def leaves_later(): return Leaves(8, 8), torch.zeros(2, 8)
"""


def predict(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "perfcast", "predict", program, "--device", "a100", "--json", "-"],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False, input="typed",
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("programs")
    (place / "own.py").write_text(PROGRAM)
    (place / "exits.py").write_text("raise SystemExit(0)")
    return place


@pytest.mark.parametrize("function", ["prints", "closes"])
def test_what_it_prints_or_closes_leaves_the_answer_whole(folder: Path, function: str):
    done = predict(folder, f"own.py:{function}")
    assert done.returncode == 0
    assert json.loads(done.stdout)["step_seconds"] > 0


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("own.py:leaves", "ended itself by SystemExit (0)"),
        ("own.py:leaves_later", "ended itself by SystemExit (0)"),
        ("own.py:odd", "ended itself by Odd (no)"),
        ("own.py:reads", "EOFError"),
        ("exits.py:f", "exits.py: SystemExit: 0"),
    ],
)
def test_what_ends_it_is_one_error(folder: Path, program: str, says: str):
    done = predict(folder, program)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_on_a_terminal_progress_and_answer_find_their_streams_again(folder: Path):
    program = (
        "import sys; from perfcast.cli import main, progress; progress._QUIET_SECONDS = 0.01; "
        "sys.argv = ['perfcast', 'predict', 'own.py:slow', '--device', 'a100', '--brief']; main.main()"
    )
    own, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # the terminal's end
            while block := os.read(own, 65536):
                shown += block
        assert process.wait(120) == 0
    os.close(own)
    text = shown.decode()
    assert "Step time" in text
    assert "capturing and pricing own.py:slow" in text
    assert "\x1b[2K" in text  # the line of progress is gone
    assert "\\x1b[31mlogged" in text
