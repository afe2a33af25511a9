"""A profile on two real gloo processes, and one in which a process dies."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from perfcast.cost.cluster_profile import load_cluster_profile
from perfcast.errors import CalibrationError, InputError
from perfcast.files.records import count_lines, open_records
from perfcast.measure.collectives import store
from perfcast.measure.collectives.environment import Place
from perfcast.measure.collectives.plan import PROFILED, Axis, ProfilePlan, make_plan
from perfcast.measure.collectives.profile import fit_profile, profile_as_rank, profile_here


def written(plan: ProfilePlan, path: Path) -> None:
    """Measurements of a plan, as if they had been made."""
    records = [
        store.Record(plan.setup(), axis, collective, size, 2, size, 1e-4 + size / 1e9, 0.0, 0)
        for axis, collective, size in sorted(plan.keys())
    ]
    with open_records(store.measurements_path(path), store.KIND) as file:
        store.append_records(file, records)


def workers() -> list[int]:
    """Processes that this one has started."""
    found = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text()
    return [int(pid) for pid in found.split()]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[ProfilePlan, Path]:
    """All collectives between two processes, at four small sizes."""
    plan = replace(make_plan((), 2, "gloo", (), 4, 12), rounds=1, sizes_bytes=(4, 1000, 4096, 16384))
    path = tmp_path_factory.mktemp("profile") / "p.json"
    with contextlib.suppress(CalibrationError):  # sizes this small may cost the same, up to noise
        profile_here(plan, path)
    return plan, path


def test_two_processes_measure_every_collective(measured: tuple[ProfilePlan, Path]):
    plan, path = measured
    records = store.load_records(store.measurements_path(path), plan.setup())
    assert {record.key for record in records} == plan.keys()
    assert {record.collective for record in records} == set(PROFILED)
    assert all(0 < record.seconds < 10 for record in records)


def test_buffers_are_rounded_up_to_whole_elements_of_every_rank(measured: tuple[ProfilePlan, Path]):
    plan, path = measured
    records = store.load_records(store.measurements_path(path), plan.setup())
    assert {(r.wanted_bytes, r.size_bytes) for r in records} == {
        (4, 8), (1000, 1000), (4096, 4096), (16384, 16384),
    }  # fmt: skip


def test_when_a_process_dies_the_others_stop_and_what_is_finished_is_kept(tmp_path: Path):
    plan = make_plan((), 2, "gloo", (), 1024, 2**22)
    path = tmp_path / "p.json"
    died: list[float] = []
    before = set(workers())  # such as the tracker that another test's processes left

    def kill_one(owner: int) -> None:
        children = Path(f"/proc/self/task/{owner}/children")
        while count_lines(store.measurements_path(path)) == 0:
            time.sleep(0.05)
        os.kill(int(children.read_text().split()[-1]), signal.SIGKILL)
        died.append(time.monotonic())

    threading.Thread(target=kill_one, args=(threading.get_native_id(),), daemon=True).start()
    with pytest.raises(
        CalibrationError, match=r"killed by SIGKILL; the others were stopped; \d+ measurements are kept"
    ):
        profile_here(plan, path)
    assert time.monotonic() - died[0] < 30
    assert set(workers()) <= before
    assert store.load_records(store.measurements_path(path), plan.setup())
    assert not path.exists()


def test_a_finished_profile_is_fitted_without_measuring(tmp_path: Path):
    plan = make_plan((), 2, "gloo", ["send", "all_reduce"])
    path = tmp_path / "p.json"
    written(plan, path)
    profile = profile_here(plan, path)
    assert load_cluster_profile(path) == profile
    assert set(profile.axis("world").curves) == {"send", "all_reduce"}
    assert profile.axis("world").curves["send"].seconds(1e6) == pytest.approx(1e-4 + 1e-3)


def test_axes_of_one_rank_stay_in_the_profile(tmp_path: Path):
    plan = make_plan((Axis("dp", 1), Axis("tp", 2)), 2, "gloo", ["send"])
    written(plan, tmp_path / "p.json")
    profile = fit_profile(plan, tmp_path / "p.json")
    assert [(axis.name, axis.size, len(axis.curves)) for axis in profile.axes] == [("dp", 1, 0), ("tp", 2, 1)]


def test_measurements_of_another_mesh_do_not_count(tmp_path: Path):
    written(make_plan((), 2, "gloo"), tmp_path / "p.json")
    with pytest.raises(CalibrationError, match="nothing was measured of the mesh world=4"):
        fit_profile(make_plan((), 4, "gloo"), tmp_path / "p.json")


def test_a_launcher_must_have_started_the_ranks_of_the_mesh(tmp_path: Path):
    place = Place(0, 8, 0, "tcp://127.0.0.1:1", "torchrun")
    with pytest.raises(InputError, match="torchrun started 8 ranks, but the mesh world=2 has 2"):
        profile_as_rank(make_plan((), 2, "gloo"), place, tmp_path / "p.json")


def test_nccl_needs_a_gpu_for_every_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    with pytest.raises(InputError, match="PyTorch sees 1"):
        profile_here(make_plan((), 2, "nccl"), tmp_path / "p.json")
