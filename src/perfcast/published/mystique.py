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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perfcast.published.comparison import Comparison, print_comparison
from perfcast.replays.build.build import build_program, hash_of
from perfcast.replays.build.select import Selection
from perfcast.replays.generate.generate import Generated, generate
from perfcast.replays.play.player import Player
from perfcast.replays.program.program import CallKind, ReplayProgram
from perfcast.traces.execution_trace.reader import read_execution_trace

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


def compare(data: Path | None = None) -> Comparison:
    """No figures yet: the paper's rest on traces that are not public."""
    return Comparison(
        system="mystique",
        paper='Liang et al., "Mystique: Enabling Accurate and Scalable Generation of Production AI '
        'Benchmarks", ISCA 2023',
        protocol="perfcast replay of the same kinds of traces.",
        reason="The paper's figures rest on traces and machines that are not public.",
    )


if __name__ == "__main__":
    print_comparison(compare)
