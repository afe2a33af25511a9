"""A system's clock may be set at any time: no duration and no age is taken from it."""

from __future__ import annotations

import ast
import time
from collections import Counter
from pathlib import Path

import pytest

import perfcast

ROOT = Path(perfcast.__file__).parent
#: Where the time of day is read, how often, and what for.
SHOWN = {
    ("server/jobs.py", "time.time"): 3,  # when a job was made, began and ended, as the API says it
    ("server/uploads.py", "time.time"): 1,  # when a recording came, as the API says it
    ("workload/kept/store.py", "time.time"): 1,  # beside the times of files, which have that clock
}
WALL = ("time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.today", "date.today")


def _name(node: ast.expr) -> str:
    return f"{_name(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _texts(tree: ast.AST) -> set[ast.expr]:
    """Times of day that become text at once: ``datetime.now(UTC).isoformat(…)``."""
    return {
        node.func.value.func
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("isoformat", "strftime")
        and isinstance(node.func.value, ast.Call)
    }


def test_the_time_of_day_is_shown_and_never_reckoned_with():
    found: Counter[tuple[str, str]] = Counter()
    for path in ROOT.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        shown = _texts(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and _name(node) in WALL and node not in shown:
                found[str(path.relative_to(ROOT)), _name(node)] += 1
    assert dict(found) == SHOWN


@pytest.mark.parametrize("jump", [-(10.0**6), 10.0**6])
def test_a_clock_that_jumps_changes_no_age_of_uploads_and_jobs(monkeypatch: pytest.MonkeyPatch, jump: float):
    from perfcast.server.jobs import Job
    from perfcast.server.questions import read_question
    from perfcast.server.uploads import Upload

    asking = read_question("predict", {"model": "gpt2", "device": "h100-sxm"})
    job, upload = Job(asking=asking, kinds=("json",)), Upload("0" * 32, Path("x"), 1)
    assert job.seconds_since_end < 0
    job.end("cancelled")
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now + jump)
    assert 0 <= job.seconds_since_end < 60
    assert upload.kept_since <= time.monotonic()


@pytest.mark.parametrize("jump", [-(10.0**6), 10.0**6])
def test_a_clock_that_jumps_changes_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: float):
    from perfcast.errors import InputError
    from perfcast.files.lock import hold_lock

    times = iter(range(10**6))
    monkeypatch.setattr("time.time", lambda: jump * next(times))
    with hold_lock(tmp_path / "m", elsewhere=""):
        pass
    with (
        hold_lock(tmp_path / "m", elsewhere=""),
        pytest.raises(InputError, match="by this process already"),
        hold_lock(tmp_path / "m", elsewhere=""),
    ):
        pass
