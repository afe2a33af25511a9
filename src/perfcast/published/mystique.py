"""Liang et al., "Mystique: Enabling Accurate and Scalable Generation of Production AI Benchmarks" (ISCA
2023): a benchmark made from an execution trace, which behaves like the program that was traced.

    selection      the first operator on each path from the root that has a schema replays/build/select
    functions      from the schema, by the registered operators                   replays/play/bind
    tensors        those that no replayed operator makes are made up in advance;  replays/fill
                   integers by what they mean, lookups by a reuse histogram
    communication  collectives by their records, on the groups that were recorded replays/communication
    lookups        operators of recommendation models with indices drawn alike    replays/fill
    what cannot    is left out, and counted                                       replays/program.Skipped
    generation     a program of its own                                           replays/generate
    fidelity       iteration time, and the share of operators that are replayed     here

The paper's figures rest on traces and machines that are not public, and its full text was not at hand, so
none is reproduced. Its public successor (facebookresearch/param, et_replay), run on a processor here, covers
100 % of a transformer's operators, 36 % of a small DLRM's, and fails on ResNet and GPT-2 traces of GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perfcast.errors import InputError
from perfcast.published.comparison import Comparison, Figure, print_comparison
from perfcast.replays.build.build import build_program, hash_of
from perfcast.replays.build.select import Selection
from perfcast.replays.generate.generate import Generated, generate
from perfcast.replays.play.player import Player
from perfcast.replays.program.program import CallKind, ReplayProgram
from perfcast.traces.execution_trace.reader import read_execution_trace, read_execution_traces
from perfcast.traces.kineto.reader import read_kineto

if TYPE_CHECKING:
    from perfcast.traces.events import Trace


@dataclass(frozen=True, slots=True)
class BenchmarkFidelity:
    """How well a replay stands for its original.

    Attributes:
        operator_coverage: Operators replayed, over those and the ones left out that do something.
        iteration_seconds: Processor time of a replayed step, the median.
        original_seconds: The same of the traced program; NaN where not given.
        skipped: Operators left out → why.
    """

    operator_coverage: float
    iteration_seconds: float
    original_seconds: float
    skipped: Mapping[str, str]

    @property
    def relative_error(self) -> float:
        """Signed: (replayed - original) / original; NaN where the original is not known."""
        return self.iteration_seconds / self.original_seconds - 1


def make_benchmark(
    paths: Sequence[str | Path],
    folder: str | Path,
    *,
    timelines: Sequence[Trace | None] | None = None,
    device: str = "cpu",
    is_anonymised: bool = True,
) -> Generated:
    """A stand-alone benchmark from the execution traces of a program's ranks, in order.

    Raises:
        TraceError: A trace that cannot be read, or holds nothing to replay.
        InputError: A folder with other files.
    """
    programs = [
        build_program(
            read_execution_trace(path),
            timeline=timeline,
            selection=Selection(),
            device=device,
            source_hash=hash_of(path),
        )
        for path, timeline in zip(paths, timelines or [None] * len(paths), strict=True)
    ]
    return generate(programs, folder, is_anonymised=is_anonymised)


def judge_replay(
    program: ReplayProgram, *, original_seconds: float = float("nan"), repeats: int = 30
) -> BenchmarkFidelity:
    """Play a program in this process, and say how much of it was played and how long that took.

    Args:
        original_seconds: Processor time of the original's step, for comparison.

    Raises:
        TraceError: A call that ran once fails later.
    """
    player = Player(program)
    rehearsal = player.rehearse()
    played = player.run(repeats)
    ordered = sorted(played.processor_seconds)
    failed = {program.calls[index].name: reason for index, reason in rehearsal.failures.items()}
    return BenchmarkFidelity(
        operator_coverage=operator_coverage(program, len(rehearsal.failures)),
        iteration_seconds=ordered[len(ordered) // 2] / max(program.num_steps, 1),
        original_seconds=original_seconds,
        skipped={**{one.operator: one.reason for one in program.skipped}, **failed},
    )


def operator_coverage(program: ReplayProgram, num_failed: int = 0) -> float:
    """Replayed operators over all that were chosen and do something; 1 where there are none."""
    num_calls = sum(call.kind is not CallKind.IDLE for call in program.calls)
    num_skipped = sum(not one.is_harmless for one in program.skipped)
    return (num_calls - num_failed) / max(num_calls + num_skipped, 1)


@dataclass(frozen=True, slots=True)
class PublicTrace:
    """A public trace of the folder ``traces``, and what the paper's public successor replays of it.

    Attributes:
        title: The program that was traced.
        trace, timeline: Files under ``traces``; '' where there is no timeline of the same run.
        successor: Share of operators that et_replay replays on a processor, once devices are renamed; None
            where it does not come to an end.
        why: What stops it.
        is_played: Whether it is small enough to be played for the comparison.
    """

    title: str
    trace: str
    timeline: str = ""
    successor: float | None = None
    why: str = ""
    is_played: bool = False


#: facebookresearch/param's et_replay, run on a processor of two cores with PyTorch 2.13.
PUBLIC_TRACES = (
    PublicTrace("linear layers (param)", "param/linear_et.json.gz", successor=1.0, is_played=True),
    PublicTrace(
        "transformer on a processor", "cpu/tr.et.json.gz", "cpu/tr.kineto.json.gz", 1.0, is_played=True
    ),
    PublicTrace(
        "small DLRM on a processor", "cpu/dlrm.et.json.gz", "cpu/dlrm.kineto.json.gz", 0.36,
        "its made-up indices stop it until operators are left out", is_played=True,
    ),
    PublicTrace("ResNet (param)", "param/resnet_et.json.gz", why="stops at cudnn_batch_norm_backward"),
    PublicTrace("ResNet, two GPUs (param)", "param/v1.1.0_resnet_2gpu_et.json.gz", why="was not tried"),
    PublicTrace("GPT-2 (param)", "param/hf_GPT2_et.json.tar.gz", why="was ended at 23 GB of memory"),
    PublicTrace(
        "DLRM, eight GPUs, rank 0 (param)", "param/dlrm_pytorch_et.tar.gz", why="stops at pin_memory"
    ),
    PublicTrace("kernels by Triton (param)", "param/pt2_et.json.gz", why="was not tried"),
)  # fmt: skip


def compare(data: Path | None = None) -> Comparison:
    """With ``data`` the share of public traces' operators that is replayed.

    Raises:
        InputError: The folder holds none of the traces.
    """
    figures: list[Figure] = []
    if data is not None:
        folder = _trace_folder(data)
        found = [one for one in PUBLIC_TRACES if (folder / one.trace).is_file()]
        figures = [figure for one in found for figure in _coverage_figures(folder, one)]
    missing = "Coverage of public traces is compared with --data DIR (traces/). " if data is None else ""
    return Comparison(
        system="mystique",
        paper='Liang et al., "Mystique: Enabling Accurate and Scalable Generation of Production AI '
        'Benchmarks", ISCA 2023',
        protocol="Share of the operators of public traces that a replay on a processor runs. Published is "
        "what the paper's public successor, et_replay, replays of the same traces, as we measured it.",
        figures=tuple(figures),
        notes=("How long replays take beside their recordings: perfcast replay FOLDER; docs/accuracy.md.",),
        reason=f"{missing}The paper's own figures rest on traces and machines that are not public.",
    )


def _trace_folder(data: Path) -> Path:
    for folder in (data / "traces", data):
        if any((folder / one.trace).is_file() for one in PUBLIC_TRACES):
            return folder
    raise InputError(f"{data} holds none of the public traces, such as traces/{PUBLIC_TRACES[0].trace}")


def _coverage_figures(folder: Path, public: PublicTrace) -> list[Figure]:
    """Coverage by operators; and by their recorded time where a timeline tells it."""
    trace = read_execution_traces([folder / public.trace])[0]
    timeline = read_kineto(folder / public.timeline) if public.timeline else None
    program = build_program(trace, timeline=timeline, selection=Selection(), device="cpu")
    num_failed = len(Player(program).rehearse().failures) if public.is_played else 0
    how = "" if public.is_played else "ours: calls that are prepared; it is too large to be played here"
    why = f"et_replay {public.why}" if public.why else ""
    figures = [
        Figure(
            what=f"{public.title}: operators", unit="%", digits=4,
            published=None if public.successor is None else 100 * public.successor,
            ours=100 * operator_coverage(program, num_failed), note="; ".join(filter(None, (why, how))),
        )
    ]  # fmt: skip
    if timeline is not None:
        what = f"{public.title}: their recorded time"
        figures.append(
            Figure(what=what, published=None, ours=100 * time_coverage(program), unit="%", digits=4)
        )
    return figures


def time_coverage(program: ReplayProgram) -> float:
    """Recorded host time of replayed operators over that of all that were chosen and do something."""
    played = [call.recorded_seconds for call in program.calls if call.kind is not CallKind.IDLE]
    skipped = [one.recorded_seconds for one in program.skipped if not one.is_harmless]
    known = [seconds for seconds in played if math.isfinite(seconds)]
    lost = sum(seconds for seconds in skipped if math.isfinite(seconds))
    return sum(known) / ((sum(known) + lost) or 1.0)


if __name__ == "__main__":
    print_comparison(compare)
