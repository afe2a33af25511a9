"""One configuration's overheads, forecasts of others, and what these really take on processes of a machine.

Run by hand: ``python benchmarks/gloo_forecasts.py [--keep DIR] [--seconds 70] [--json FILE]``; with two and
then four ranks for so long each, five to six minutes in all with starting, 1 GB. With a folder that holds
results it only reads them.

A recommendation model (tables shared out over ranks, an all-to-all, dense nets by DDP) with three sets of
tables, and a transformer (DDP) of three sizes, each at three batches, run on gloo with one thread a rank
(``gloo_steps.py``). The first set at its middle batch gives overheads and operators' times
(``perfcast.published.multi_gpu_2024.on_processor``); a sweep of message sizes gives the collectives. Of every
other configuration the forecast knows which operators run on which sizes and nothing of their times.
Where there are more ranks than processors, the host's pieces take as many times longer as these are shared.
Beside it: 'kernels alone' is the forecast's operators and collectives without T1; 'own times' plays each
configuration with the times that it recorded itself, which is what structure and noise leave.

Steps take turns and are the least of their rounds, measured from a barrier to the next. On a machine with
other work these times say little; so 'busy' compares what the busiest rank's own thread computes in a step,
in processor time (medians), with the forecast's pieces. Errors are those of the study: geometric mean of
|error| + 0.0004, and mean |error|; 'two halves' is how far the least of every second step is from that of the
others.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from gloo_steps import SIZES, Configuration, configurations

from perfcast.published.multi_gpu_2024.iteration import geometric_mean_error
from perfcast.published.multi_gpu_2024.on_processor import (
    CollectiveCurve,
    ProcessorModel,
    RecordedStep,
    fit_processor,
    forecast_programs,
)
from perfcast.traces.kineto.reader import read_ranks
from perfcast.traces.timeline.play import play_ranks
from perfcast.traces.timeline.program import Overhead, RankProgram
from perfcast.traces.timeline.ranks import build_ranks

RANKS = (2, 4)
#: Of each workload, what overheads are taken from.
RECORDED = {"dlrm": ("mixed", 64), "transformer": ("wide", 4)}


@dataclass(frozen=True)
class Outcome:
    """A configuration: least measured step, and forecasts; seconds."""

    num_ranks: int
    workload: str
    name: str
    is_recorded: bool
    measured: float
    forecast: float
    kernels_alone: float
    own_times: float
    half_seconds: tuple[float, float]
    busy: float
    forecast_busy: float


@dataclass(frozen=True)
class Steps:
    """Plain steps of a configuration.

    Attributes:
        wall: Of each, by the clock of the rank that took longest.
        busy: Of each rank's thread, the median over steps.
    """

    wall: list[float]
    busy: list[float]

    @classmethod
    def of(cls, times: Sequence[dict[str, list[list[float]]]], one: Configuration) -> Steps:
        own = np.array([rank[one.name] for rank in times])
        return cls(own[:, :, 0].max(axis=0).tolist(), np.median(own[:, :, 1], axis=1).tolist())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--keep", type=Path, help="folder of traces and times; kept, and read where it has some"
    )
    parser.add_argument("--seconds", type=float, default=70.0, help="of the steps of each number of ranks")
    parser.add_argument("--json", type=Path, help="where the outcomes are written")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="perfcast-gloo-") as place:
        folder = options.keep or Path(place)
        outcomes = []
        for num_ranks in RANKS:
            own = folder / f"{num_ranks}-ranks"
            if not (own / "times-0.json").exists():
                run_ranks(own, num_ranks, options.seconds)
            outcomes += compare(own, num_ranks)
    for one in outcomes:
        print(describe(one))
    print_summary(outcomes)
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in outcomes], indent=1))
    return 0


def run_ranks(folder: Path, num_ranks: int, seconds: float) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.iterdir():
        stale.unlink()
    common = {
        "WORLD_SIZE": str(num_ranks),
        "MEETING": f"file://{folder.resolve()}/meeting",
        "OMP_NUM_THREADS": "1",
    }
    words = [sys.executable, str(Path(__file__).with_name("gloo_steps.py")), str(folder), str(seconds)]
    quiet = subprocess.DEVNULL  # PyTorch's profiler says when it starts and stops
    ranks = [
        subprocess.Popen(words, env=os.environ | common | {"RANK": str(rank)}, stderr=quiet, stdout=quiet)
        for rank in range(num_ranks)
    ]
    failed = [rank for rank, process in enumerate(ranks) if process.wait(timeout=20 * seconds + 300)]
    if failed:
        raise SystemExit(f"ranks {failed} of {num_ranks} failed; run one by hand: {' '.join(words)}")


def compare(folder: Path, num_ranks: int) -> list[Outcome]:
    times = [json.loads((folder / f"times-{rank}.json").read_text()) for rank in range(num_ranks)]
    curve = read_curve(folder, num_ranks)
    outcomes = []
    for workload, chosen in RECORDED.items():
        every = [one for one in configurations() if one.workload == workload]
        recorded = next(one for one in every if (one.kind, one.batch) == chosen)
        steps = {one.name: Steps.of(times, one) for one in every}
        own = read_steps(folder, recorded, num_ranks)
        model = fit_processor(own, steps[recorded.name].busy, curve)
        for one in every:
            found = read_steps(folder, one, num_ranks)[0]
            outcomes.append(forecast(one, found, model, curve, steps[one.name], one is recorded))
    return outcomes


def read_steps(folder: Path, one: Configuration, num_ranks: int) -> list[RecordedStep]:
    """Every recorded step of all rounds, the fastest first."""
    found: list[tuple[float, RecordedStep]] = []
    for first in sorted(folder.glob(f"{one.name.replace(' ', '-')}.*.0.json")):
        name = first.name.removesuffix("0.json")
        traces = read_ranks([first.with_name(f"{name}{rank}.json") for rank in range(num_ranks)])
        for step in traces[0].steps:
            programs = build_ranks(traces, [step.number])
            slowest_rank = max(program.measured_seconds[0] for program in programs)
            found.append((slowest_rank, RecordedStep(traces, programs)))
    return [step for _, step in sorted(found, key=lambda pair: pair[0])]


def read_curve(folder: Path, num_ranks: int) -> CollectiveCurve:
    """Straight lines between the sweep's sizes; the last pace beyond."""
    sweeps = [json.loads((folder / f"sweep-{rank}.json").read_text()) for rank in range(num_ranks)]
    curves = {name: np.max([sweep[name] for sweep in sweeps], axis=0) for name in sweeps[0]}

    def seconds(name: str, num_bytes: float) -> float:
        own = np.maximum.accumulate(curves[name])
        if name == "barrier":
            return float(np.median(curves[name]))
        return float(np.interp(num_bytes, SIZES, own) * max(num_bytes / SIZES[-1], 1.0))

    return seconds


def forecast(
    one: Configuration,
    found: RecordedStep,
    model: ProcessorModel,
    curve: CollectiveCurve,
    steps: Steps,
    is_recorded: bool,
) -> Outcome:
    alone = forecast_programs(model, found.traces, found.programs, curve)
    modelled = [shared(program, len(alone)) for program in alone]
    halves = (min(steps.wall[::2]), min(steps.wall[1::2]))
    busy = max(sum(piece.seconds for piece in program.pieces) for program in alone)
    return Outcome(
        len(found.programs), one.workload, one.name, is_recorded, min(steps.wall), played(modelled),
        played([without_gaps(program) for program in modelled]), played(found.programs), halves,
        max(steps.busy), busy,
    )  # fmt: skip


def played(programs: Sequence[RankProgram]) -> float:
    return float(np.mean(play_ranks(programs).step_seconds))


def shared(program: RankProgram, num_ranks: int) -> RankProgram:
    """Ranks beyond the machine's processors take turns on them."""
    slower = max(1.0, num_ranks / len(os.sched_getaffinity(0)))
    return program.with_piece_seconds([slower * piece.seconds for piece in program.pieces])


def without_gaps(program: RankProgram) -> RankProgram:
    pieces = (replace(p, seconds=0.0) if p.overhead is Overhead.BETWEEN else p for p in program.pieces)
    return replace(program, pieces=tuple(pieces))


def describe(one: Outcome) -> str:
    def beside(seconds: float) -> str:
        return f"{1e3 * seconds:7.2f} ({100 * (seconds / one.measured - 1):+6.1f} %)"

    mark = " recorded" if one.is_recorded else ""
    return (
        f"{one.num_ranks} ranks  {one.name:28} measured {1e3 * one.measured:7.2f} ms"
        f"  forecast {beside(one.forecast)}"
        f"  kernels alone {beside(one.kernels_alone)}  own times {beside(one.own_times)}"
        f"  busy {1e3 * one.busy:6.2f} {100 * (one.forecast_busy / one.busy - 1):+6.1f} %{mark}"
    )


def print_summary(outcomes: Sequence[Outcome]) -> None:
    """As the study reports: each workload, then all; the recorded configurations count for nothing."""
    heads = "geometric mean   mean   kernels alone   own times   two halves   busy thread"
    print(f"\nerror of a step       n   {heads}")
    for num_ranks in (*RANKS, 0):
        for workload in (*RECORDED, ""):
            some = [
                one
                for one in outcomes
                if not one.is_recorded and num_ranks in (0, one.num_ranks) and workload in ("", one.workload)
            ]
            if some:
                print(summary_line(num_ranks, workload, some))


def summary_line(num_ranks: int, workload: str, some: Sequence[Outcome]) -> str:
    measured = [one.measured for one in some]

    def gmae(seconds: Sequence[float]) -> float:
        return 100 * geometric_mean_error(seconds, measured)

    mean = 100 * np.mean([abs(one.forecast / one.measured - 1) for one in some])
    halves = 100 * np.median([abs(a / b - 1) for a, b in (one.half_seconds for one in some)])
    busy = geometric_mean_error([one.forecast_busy for one in some], [one.busy for one in some])
    name = f"{f'{num_ranks} ranks' if num_ranks else 'all'} {workload}"
    return (
        f"{name:20} {len(some):3} {gmae([one.forecast for one in some]):14.1f} % {mean:5.1f} %"
        f" {gmae([one.kernels_alone for one in some]):13.1f} % {gmae([one.own_times for one in some]):9.1f} %"
        f" {halves:10.1f} % {100 * busy:10.1f} %"
    )


if __name__ == "__main__":
    sys.exit(main())
