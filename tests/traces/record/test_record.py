"""Recording real programs: a few seconds each, since every one starts a Python with torch."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from perfcast.errors import TraceError
from perfcast.traces.collectives.recorded import recorded_collectives
from perfcast.traces.execution_trace.reader import read_execution_trace
from perfcast.traces.kineto.borrowed_inputs import with_inputs_of
from perfcast.traces.kineto.reader import read_kineto, read_ranks
from perfcast.traces.link.traces import BY_NUMBER, containment_violations, link, repaired
from perfcast.traces.record.launch import RankRecording, ranks_in, record, why_nothing
from perfcast.traces.record.quiet import quietly
from perfcast.traces.record.recorder import Recorder, Request, trace_step
from perfcast.traces.timeline.ranks import build_ranks

TRAIN = """
import torch
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)
for _ in range({steps}):
    optimizer.zero_grad()
    model(torch.randn(2, 8)).sum().backward()
    optimizer.step()
    scheduler.step()
"""
GLOO = """
import os, sys
import torch, torch.distributed as dist, torch.multiprocessing as mp
def main(rank, place):
    dist.init_process_group("gloo", init_method="file://" + place, rank=rank, world_size=2)
    torch.set_num_threads(1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(12):
        optimizer.zero_grad()
        model(torch.randn(16, 64)).square().mean().backward()
        optimizer.step()
    dist.destroy_process_group()
if __name__ == "__main__":
    mp.start_processes(main, (sys.argv[1],), nprocs=2, start_method="fork")
"""


def script(folder: Path, text: str) -> str:
    path = folder / "program.py"
    path.write_text(text)
    return str(path)


def request(folder: Path, **options: int | bool) -> Request:
    return Request(str(folder / "out"), **{"num_skipped": 2, "num_timed": 1, "num_steps": 2, **options})


def test_a_training_script_is_recorded_without_a_line_in_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    found = record([script(tmp_path, TRAIN.format(steps=12))], request(tmp_path))
    (rank,) = found.ranks
    assert (found.exit_code, rank.problem, rank.num_steps, rank.steps_by) == (0, "", 2, "optimizer")
    assert capfd.readouterr().err == ""
    assert sorted(rank.files) == ["et", "kineto", "linked"]
    assert rank.slow_down is not None
    timeline = read_kineto(rank.files["kineto"])
    assert len(timeline.steps) == 2
    assert any("Optimizer.step" in name for name in timeline.events.names)
    execution_trace, linked = read_execution_trace(rank.files["et"]), read_kineto(rank.files["linked"])
    joined = link(execution_trace, linked)
    assert (joined.how, joined.node_rate, joined.row_rate) == (BY_NUMBER, 1.0, 1.0)
    assert execution_trace.warnings == ()
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.startswith(".")]


def recorded(recorder: Recorder, num_steps: int) -> None:
    import torch

    model = torch.nn.Linear(8, 8)
    for _ in range(num_steps):
        model(torch.randn(2, 8))
        recorder.on_step()


def test_steps_that_the_program_marks_are_recorded(tmp_path: Path):
    recorded(Recorder(Request(str(tmp_path), 2, 2, 1, has_execution_trace=False)), 12)
    (rank,) = ranks_in(tmp_path)
    assert (rank.steps_by, rank.num_steps, sorted(rank.files)) == ("trace_step", 2, ["kineto"])
    assert len(read_kineto(rank.files["kineto"]).steps) == 2


@pytest.mark.parametrize("num_steps", [1, 3, 5, 8])
def test_a_program_too_short_keeps_nothing_half_done_and_says_so(tmp_path: Path, num_steps: int):
    recorder = Recorder(Request(str(tmp_path), 2, 2, 1))
    recorded(recorder, num_steps)
    recorder.close()
    (rank,) = ranks_in(tmp_path)
    assert rank.files == {}
    assert f"ended after {num_steps} of the 12 steps" in rank.problem
    assert (rank.num_steps, rank.num_ended) == (0, num_steps)
    assert [path.name for path in tmp_path.iterdir()] == ["rank0.record.json"]


def test_a_timeline_that_was_whole_when_the_program_ended_is_kept(tmp_path: Path):
    recorder = Recorder(Request(str(tmp_path), 2, 2, 1))
    recorded(recorder, 9)
    recorder.close()
    (rank,) = ranks_in(tmp_path)
    assert sorted(rank.files) == ["kineto"]
    assert rank.problem.endswith(
        "after 9 of the 12 steps that a recording takes: the timeline is whole, the "
        "execution trace is missing"
    )


def test_a_program_that_ends_among_its_last_timed_steps_has_recorded_all(tmp_path: Path):
    recorder = Recorder(Request(str(tmp_path), 2, 2, 2, has_execution_trace=False))
    recorded(recorder, 11)
    recorder.close()
    (rank,) = ranks_in(tmp_path)
    assert (sorted(rank.files), rank.problem) == (["kineto"], "")


def test_a_drift_of_the_machine_is_no_slow_down(tmp_path: Path):
    seconds = {
        "before": {"wall": [1.0, 1.0, 1.0], "processor": [1.0, 1.0, 9.0]},
        "timeline": {"wall": [1.6, 1.5, 1.5], "processor": [1.5, 1.5]},
        "after": {"wall": [2.0], "processor": [2.0]},
        "execution trace": {"wall": [], "processor": []},
    }
    written = {
        "rank": 0, "world_size": 1, "files": {}, "num_steps": 2, "problem": "", "steps_by": "optimizer",
        "seconds": seconds,
    }  # fmt: skip
    (tmp_path / "rank0.record.json").write_text(json.dumps(written))
    (rank,) = ranks_in(tmp_path)
    assert (rank.slow_down, rank.wall_slow_down) == (0.0, 0.0)
    assert rank.execution_trace_step_seconds is None


def test_a_program_without_steps_is_told_what_to_do(tmp_path: Path):
    with pytest.raises(TraceError, match=r"exit code 3.*perfcast\.trace_step\(\)"):
        record([script(tmp_path, "raise SystemExit(3)")], request(tmp_path))
    with pytest.raises(TraceError, match="no such command: does-not-exist"):
        record(["does-not-exist"], request(tmp_path))


def test_a_program_that_ends_too_early_leaves_nothing_and_says_what_to_pass(tmp_path: Path):
    wanted = r"the command ended after 7 steps, and a recording takes 12: .* --skip 1 --steps 1 --timed 0$"
    with pytest.raises(TraceError, match=wanted):
        record([script(tmp_path, TRAIN.format(steps=7))], request(tmp_path))
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("num_steps", range(1, 30))
def test_what_a_short_program_is_told_to_pass_is_enough(num_steps: int):
    rank = RankRecording(0, 1, {}, 0, None, None, None, None, None, "optimizer", "", num_steps)
    told = why_nothing([rank], Request("out"), 0)
    numbers = dict(re.findall(r"--(skip|steps|timed) (\d+)", told))
    assert numbers, told
    passed = Request("out", *(int(numbers[word]) for word in ("skip", "steps", "timed")),
                     has_execution_trace="--no-execution-trace" not in told)  # fmt: skip
    assert passed.num_needed <= max(num_steps, 5)
    assert ("at least 5 steps" in told) == (num_steps < 5)


def test_a_program_that_was_killed_is_said_to_be(tmp_path: Path):
    killed = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    with pytest.raises(TraceError, match="was ended by SIGKILL"):
        record([script(tmp_path, killed)], request(tmp_path))


def test_the_profilers_chatter_is_caught_and_nothing_else(capfd: pytest.CaptureFixture[str]):
    with quietly():
        os.write(2, b"USDT:2026-11-23 21:45:27 1:1 SyncActivityProfilerHandler.cpp:52] profiler_start\n")
        os.write(
            2, b"[W1123 21:45:36.9 execution_trace_observer.cpp:989] Enabling Execution Trace Observer\n"
        )
        os.write(2, b"ERROR:2026-11-23 21:45:27 1:1 Cupti.cpp:1] no counters\nof the program\n")
    assert (
        capfd.readouterr().err == "ERROR:2026-11-23 21:45:27 1:1 Cupti.cpp:1] no counters\nof the program\n"
    )


def test_a_folder_with_a_recording_is_not_written_over(tmp_path: Path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "rank0.record.json").touch()
    with pytest.raises(TraceError, match="holds a recording already"):
        record([sys.executable, "-c", ""], request(tmp_path))


def test_two_gloo_ranks_are_recorded_matched_and_mended(tmp_path: Path):
    program = script(tmp_path, GLOO)
    found = record([sys.executable, program, str(tmp_path / "meet")], request(tmp_path))
    assert [(rank.rank, rank.world_size, rank.problem) for rank in found.ranks] == [(0, 2, ""), (1, 2, "")]
    bare = read_ranks([rank.files["kineto"] for rank in found.ranks])
    lent = read_ranks([rank.files["linked"] for rank in found.ranks])
    traces = [with_inputs_of(one, other) for one, other in zip(bare, lent, strict=True)]
    programs = build_ranks(traces)
    assert [[bool(work.collective) for work in program.works] for program in programs] == [[True] * 2] * 2
    asked = [recorded_collectives(trace) for trace in traces]
    assert [[one.collective.name for one in own] for own in asked] == [["allreduce"] * 2] * 2
    assert asked[0][0].collective.in_elements == 64 * 8 + 8
    for rank in found.ranks:
        execution_trace, linked = read_execution_trace(rank.files["et"]), read_kineto(rank.files["linked"])
        assert [group.ranks for group in execution_trace.process_groups] == [(0, 1)]  # begun after they were
        joined = link(execution_trace, linked)
        assert joined.node_rate == 1.0
        assert containment_violations(repaired(execution_trace, linked, joined), linked, joined) == ()


@pytest.mark.skipif(os.name != "posix", reason="signals of process groups")
def test_an_interrupt_ends_the_program_and_is_told(tmp_path: Path):
    text = "import time\nopen('alive', 'w').close()\nwhile True: time.sleep(0.01)"
    program = script(tmp_path, text)
    run = (
        "from perfcast.traces.record.launch import record;"
        "from perfcast.traces.record.recorder import Request;"
        f"found = record([{program!r}], Request('out'));"
        "print(found.is_interrupted, found.ranks, found.exit_code)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", run], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True, start_new_session=True,
    )  # fmt: skip
    while not (tmp_path / "alive").exists() and process.poll() is None:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert output.startswith("True () ")
    assert not list((tmp_path / "out").iterdir())


def test_marking_a_step_outside_a_recording_does_nothing():
    trace_step()


def test_the_phases_of_a_recording_follow_each_other():
    recorder = Recorder(Request(".", num_skipped=2, num_steps=3, num_timed=1))
    assert [recorder._phase(step) for step in range(15)] == [
        *["skipped"] * 2,
        "readied first",
        *["rehearsal"] * 3,
        "before",
        "readied",
        *["timeline"] * 3,
        "after",
        "readied again",
        "execution trace",
        "done",
    ]


def test_a_program_that_outlived_what_started_it_is_named_and_nothing_is_mixed_with_its_files(tmp_path: Path):
    program = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        (tmp_path / f".perfcast-{program.pid}.running").touch()
        with pytest.raises(TraceError, match=rf"process {program.pid} is still being recorded .*\(kill"):
            record(["true"], Request(str(tmp_path)))
    finally:
        program.communicate(b"\n")
    (tmp_path / f".perfcast-{program.pid}.kineto.json").write_text("[")  # as a kill leaves it
    with pytest.raises(TraceError, match="no step was recorded"):
        record(["true"], Request(str(tmp_path)))
    assert list(tmp_path.iterdir()) == []
