"""A check of parts that are stand-ins: each in a process of its own, whatever becomes of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from perfcast.errors import InputError, UnknownNameError
from perfcast.evidence.gpu_check import run
from perfcast.evidence.gpu_check.parts import Part, chosen_parts, parts_of
from perfcast.evidence.gpu_check.result import CheckFile, load_check
from perfcast.evidence.gpu_check.surroundings import environment_of_parts, told_of_environment

#: What the process of a part does, by the part's name.
SCRIPT = """
import json, os, signal, sys, time
from pathlib import Path
place = Path(sys.argv[1])
part = json.loads(place.read_text())["part"]
Path(sys.argv[2], part).touch(exist_ok=False)
if part == "broken":
    raise RuntimeError("CUDA error: an illegal memory access was encountered")
if part == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if part == "hangs":
    time.sleep(60)
if part == "measures and hangs":
    row = {"what": "a", "unit": "s", "measured": 2.0, "forecast": None, "low": None, "high": None, "note": ""}
    found = {"name": part, "status": "failed", "wall_seconds": 0.1, "rows": [row], "reason": "", "log": []}
    place.with_name("result.json").write_text(json.dumps(found))
    time.sleep(60)
if part == "mute":
    place.with_name("result.json").write_text("{}")
    sys.exit()
if part == "machine" and os.environ.get("TEST_NO_KERNELS"):
    raise RuntimeError("CUDA error: no kernel image is available for execution on the device")
row = {"what": "a", "unit": "s", "measured": 2.0, "forecast": 3.0, "low": 1.0, "high": 4.0, "note": ""}
found = {"name": part, "status": "done", "wall_seconds": 0.5, "rows": [row], "reason": "", "log": []}
if part == "machine":
    found["details"] = {"packages": {"torch": "2"}, "seen": os.environ.get("PYTORCH_ALLOC_CONF", "nothing")}
place.with_name("result.json").write_text(json.dumps(found))
"""


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A check of parts by name, and the names of those that were run."""
    ran = tmp_path / "ran"
    ran.mkdir()

    def command(job: Path) -> Sequence[str]:
        return [sys.executable, "-c", SCRIPT, str(job), str(ran)]

    def check(
        *names: str, seconds: float = 60.0, most: float = 60.0, restart: bool = False
    ) -> tuple[CheckFile, set[str]]:
        for known in ran.iterdir():
            known.unlink()
        parts = tuple(Part(name, 1.0, most) for name in names)
        monkeypatch.setattr(run, "chosen_parts", lambda device, asked: parts)
        request = run.CheckRequest(
            output=tmp_path / "check.json", device="cpu", budget_seconds=seconds, restart=restart
        )
        found = run.check_device(request)
        return found, {known.name for known in ran.iterdir()} - {"machine"}

    monkeypatch.setattr(run, "_command", command)
    return check


def test_a_part_that_fails_or_is_killed_says_why_and_the_others_go_on(checked, tmp_path: Path):
    found, _ = checked("broken", "killed", "good")
    broken, killed, good = found.parts
    assert (broken.status, killed.status, good.status) == ("failed", "failed", "done")
    assert (
        broken.reason
        == "failed with exit code 1: RuntimeError: CUDA error: an illegal memory access was encountered"
    )
    assert broken.log[-1].startswith("RuntimeError: CUDA error")
    assert killed.reason == "was killed by SIGKILL"
    assert good.rows[0].error == pytest.approx(0.5)
    assert not found.is_whole
    assert load_check(tmp_path / "check.json") == found


def test_a_second_run_goes_on_with_what_is_not_done_and_restart_begins_anew(checked):
    checked("good", "broken")
    found, ran = checked("good", "broken", "better")
    assert ran == {"broken", "better"}
    assert {part.name: part.status for part in found.parts} == {
        "good": "done",
        "broken": "failed",
        "better": "done",
    }
    found, ran = checked("more")  # what was found before stays in the file
    assert ran == {"more"}
    assert [part.name for part in found.parts] == ["good", "better", "more"]
    assert checked("good", restart=True)[1] == {"good"}


def test_what_hangs_is_stopped_with_the_budget(checked):
    found, _ = checked("hangs", seconds=0.5)
    assert found.parts[0].status == "failed"
    assert "did not end within the 0 s that were left" in found.parts[0].reason


def test_a_part_that_hangs_takes_no_more_than_its_own_time_and_the_others_have_theirs(checked):
    found, _ = checked("hangs", "measures and hangs", "mute", "good", most=0.7)
    hangs, mute, good, measured = (found.parts[place] for place in (0, 2, 3, 1))
    assert [row.measured for row in measured.rows] == [2.0]
    assert measured.reason.startswith("did not end within")
    assert hangs.reason == "did not end within the 1 s it is given, and was stopped"
    assert (mute.status, good.status) == ("failed", "done")
    assert mute.reason.startswith("its result cannot be read: KeyError")


def test_parts_do_not_see_settings_that_would_move_their_figures(
    checked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "expandable_segments:True")
    monkeypatch.setenv("PERFCAST_DATA_DIR", "/nowhere")
    assert checked("good")[0].machine["seen"] == "nothing"
    environment = environment_of_parts(tmp_path)
    assert environment["PERFCAST_DATA_DIR"] == str(tmp_path / "data")
    assert environment["HF_HUB_OFFLINE"] == "1"
    assert told_of_environment()["kept_from_parts"] == {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}


def test_a_device_that_cannot_be_used_is_said_once_before_any_part(checked, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TEST_NO_KERNELS", "1")
    with pytest.raises(InputError, match=r"this device cannot be used: .* no kernel image is available"):
        checked("good")


def test_what_does_not_fit_in_the_budget_is_left_out_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run, "_check_gpu", lambda device: None)
    monkeypatch.setattr(run, "_machine", lambda request: {"packages": {}})
    found = run.check_device(run.CheckRequest(output=tmp_path / "c.json", budget_seconds=1.0))
    assert {part.status for part in found.parts} == {"no_time"}
    assert found.parts[0].reason == "takes about 150 s, and 1 s of the budget are left"
    assert json.loads((tmp_path / "c.json").read_text())["is_whole"] is False


def test_without_a_gpu_nothing_is_run_and_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.version.cuda", None)
    with pytest.raises(InputError, match=r"PyTorch sees no CUDA or ROCm device here: .* processors alone"):
        run.check_device(run.CheckRequest(output=tmp_path / "c.json"))
    assert not list(tmp_path.iterdir())


def test_parts_are_asked_for_by_name_and_all_models_by_one():
    assert len(chosen_parts("cuda", ("models",))) == 10
    assert [part.name for part in chosen_parts("cuda", ("streams", "kernels"))] == ["kernels", "streams"]
    assert sum(part.usual_seconds for part in parts_of("cuda")) <= run.BUDGET_SECONDS
    with pytest.raises(UnknownNameError, match=r"unknown part 'stream'\. Did you mean streams"):
        chosen_parts("cuda", ("stream",))
