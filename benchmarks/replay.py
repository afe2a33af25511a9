"""How well does a replay behave like what was recorded? Originals and replays in turns, on this processor.

Run by hand: ``python benchmarks/replay.py --out FOLDER [--models NAMES] [--seconds 50]``; two minutes a model
on idle cores. What is done is kept in the folder, and only the rest is done by another run.

Each model is recorded by ``perfcast trace record``, its host gaps are found by a replay (``--host-gaps``),
and a program is generated from it. Then processes that hold the original, a second original (the noise
floor), the replay without and with host gaps, and the generated program take turns: in every round each of
them, in an order drawn anew, plays some steps on the same core while the others wait. The first of these
steps is left out, since others have filled the caches. One thread; measured is the processor's time of a
step, of all threads of a process; of two ranks the mean. The figure is fixed beforehand: the median over
rounds of (median step of the one / median step of the original in that round), less 1; beside it the interval
that holds the median of so many rounds with 95 % probability, by order statistics. On a shared machine whose
speed changes within seconds only such ratios mean something.

Gaps come from the recording alone: its steps without profiler, taken before the comparison.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pickle
import random
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import Any

from replay_models import MODELS
from replay_rank_models import NUM_RANKS, RANK_MODELS

ROLES = ("original", "again", "replay", "gaps", "generated")
HERE = Path(__file__).resolve().parent
#: Steps of a recording: left out, timed on either side of the timeline, with a timeline.
SKIPPED, TIMED, WATCHED = 10, 15, 8


class Processes:
    """One role: a process for each rank, which waits to be told how many steps to play."""

    def __init__(self, commands: Sequence[Sequence[str]], environments: Sequence[dict[str, str]]) -> None:
        self._processes = [
            subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for command, environment in zip(commands, environments, strict=True)
        ]
        if hasattr(os, "sched_setaffinity"):
            cores = sorted(os.sched_getaffinity(0))
            for rank, process in enumerate(self._processes):
                os.sched_setaffinity(process.pid, {cores[rank % len(cores)]})

    def wait_until_ready(self) -> None:
        """Models are made, recordings read."""
        for process in self._processes:
            while _line(process) != "ready":
                pass

    def step_seconds(self, num_steps: int) -> float:
        """The median step of some, the first one left out; the mean over ranks."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{num_steps + 1}\n")
            process.stdin.flush()
        return statistics.fmean(statistics.median(json.loads(_line(p))[1:]) for p in self._processes)

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise SystemExit(f"a process ended with exit code {process.wait()}")
    return line.strip()


def record_model(name: str, folder: Path) -> None:
    """``perfcast trace record`` of a model."""
    script = "replay_models.py" if name in MODELS else "replay_rank_models.py"
    steps = SKIPPED + 2 * TIMED + 2 * WATCHED + 10
    own = [sys.executable, str(HERE / script), name, "--steps", str(steps)]
    options = ["--skip", str(SKIPPED), "--timed", str(TIMED), "--steps", str(WATCHED), "--out", str(folder)]
    subprocess.run([sys.executable, "-m", "perfcast", "trace", "record", *options, "--", *own], check=True)


def prepare_model(recording: Path, programs: Path, generated: Path) -> None:
    """Programs with their gaps, and the stand-alone benchmark that has the same ones."""
    from perfcast.replays.generate.generate import generate
    from perfcast.replays.prepare import prepare
    from perfcast.replays.replay import replay, with_gaps
    from perfcast.replays.request import PlayOptions, ReplayRequest

    play = PlayOptions(repeats=5, threads=1)
    request = ReplayRequest(traces=(str(recording),), play=play, host_gaps="scaled")
    found = replay(request, prepare(request))
    made = [(one.program, one.played.gaps_seconds) for one in found]
    generate([with_gaps(program, gaps) for program, gaps in made], generated)
    with programs.open("wb") as file:
        pickle.dump(made, file)


def started(role: str, name: str, programs: Path, generated: Path, meeting: Path) -> Processes:
    """The processes of a role."""
    num_ranks = 1 if name in MODELS else NUM_RANKS
    common = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    if role == "generated":
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        common |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(num_ranks)}
        command = [sys.executable, "-I", str(HERE / "replay_generated.py"), str(generated)]
        environments = [common | {"RANK": str(rank)} for rank in range(num_ranks)]
        return Processes([command] * num_ranks, environments)
    init_method = "" if num_ranks == 1 else (meeting / role).as_uri()
    kind = "original" if role == "again" else role
    commands = [
        [sys.executable, str(HERE / "replay_worker.py"), kind, name, str(rank), init_method, str(programs)]
        for rank in range(num_ranks)
    ]
    return Processes(commands, [common] * num_ranks)


def compare(
    name: str, programs: Path, generated: Path, budget_seconds: float, num_steps: int
) -> dict[str, list[float]]:
    """Processor seconds of a step by role, one figure a round."""
    with ExitStack() as stack:
        meeting = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        roles = {
            role: stack.enter_context(started(role, name, programs, generated, meeting)) for role in ROLES
        }
        for processes in roles.values():
            processes.wait_until_ready()
        for processes in roles.values():
            processes.step_seconds(5)
        order, seconds = random.Random(0), {role: list[float]() for role in ROLES}
        end = monotonic() + budget_seconds
        while monotonic() < end:
            for role in order.sample(ROLES, len(ROLES)):
                seconds[role].append(roles[role].step_seconds(num_steps))
        return seconds


def judged(seconds: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    """Of each role: median step, error beside the original, and the error's interval."""
    rows = {}
    for role, own in seconds.items():
        ratios = sorted(a / b for a, b in zip(own, seconds["original"], strict=True))
        reach = 0.98 * math.sqrt(len(ratios))
        low = ratios[max(math.floor(len(ratios) / 2 - reach), 0)]
        high = ratios[min(math.ceil(len(ratios) / 2 + reach), len(ratios)) - 1]
        rows[role] = {
            "step_seconds": statistics.median(own),
            "error": statistics.median(ratios) - 1,
            "low": low - 1,
            "high": high - 1,
        }
    return rows


def run_model(name: str, folder: Path, arguments: argparse.Namespace) -> dict[str, Any] | None:
    """All of one model; finished parts are taken from the folder. ``None`` where nothing is compared."""
    recording, programs, generated = folder / "recording", folder / "programs.pickle", folder / "generated"
    result = folder / "result.json"
    folder.mkdir(parents=True, exist_ok=True)
    if not recording.exists():
        record_model(name, recording)
    if not programs.exists():
        prepare_model(recording, programs, generated)
    if arguments.only_prepare:
        return None
    if not result.exists():
        seconds = compare(name, programs, generated, arguments.seconds, arguments.steps)
        text = json.dumps({"seconds": seconds, "steps": arguments.steps}, indent=1)
        temporary = result.with_suffix(".part")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(result)
    found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    return found


def print_table(found: dict[str, dict[str, Any]]) -> None:
    """One line a model and role."""
    for name, one in found.items():
        print(f"{name}: {len(one['seconds']['original'])} rounds of {one['steps']} steps")
        for role, row in judged(one["seconds"]).items():
            print(
                f"  {role:10s} {row['step_seconds'] * 1e3:8.3f} ms   {row['error']:+7.1%}   "
                f"({row['low']:+.1%} to {row['high']:+.1%})"
            )


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Originals and replays in turns.")
    parser.add_argument("--out", type=Path, required=True, help="folder of recordings and results")
    parser.add_argument("--models", default=",".join([*MODELS, *RANK_MODELS]), help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=50.0, help="of comparing a model; default: 50")
    parser.add_argument("--only-prepare", action="store_true", help="record and generate, compare nothing")
    parser.add_argument("--steps", type=int, default=3, help="of a process in a round; default: 3")
    arguments = parser.parse_args()
    names = arguments.models.split(",")
    if unknown := [name for name in names if name not in {**MODELS, **RANK_MODELS}]:
        parser.error(f"no such model: {', '.join(unknown)}")
    found: dict[str, dict[str, Any]] = {}
    try:
        for name in names:
            one = run_model(name, arguments.out / name, arguments)
            if one is not None:
                found[name] = one
    except KeyboardInterrupt:
        print("interrupted; what is finished is kept", file=sys.stderr)
        return 130
    finally:
        print_table(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
