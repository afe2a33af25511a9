"""``perfcast replay``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from perfcast.cli.output import Outputs, output_options, write_result
from perfcast.cli.progress import status
from perfcast.cli.replay.options import replay_options
from perfcast.errors import TraceError
from perfcast.printer.streams import say
from perfcast.verbs.replay.question import ReplayQuestion

if TYPE_CHECKING:
    from perfcast.replays.judge.fidelity import Fidelity
    from perfcast.replays.prepare import Prepared
    from perfcast.replays.request import ReplayRequest

#: PyTorch's profiler writes a line to the error output at each start and end; from this level on, none.
_KINETO_SILENT = "6"


@click.command()
@replay_options
@output_options(html=True)
def replay(asked: ReplayQuestion, generate_folder: str | None, anonymise: bool, outputs: Outputs) -> None:
    """Run a recorded step again as a benchmark, and say how well it behaves like the original.

    \b
    perfcast trace record --out traces -- python train.py
    perfcast replay traces --host-gaps
    perfcast replay trace.et.json.gz --device cpu --generate benchmark/
    torchrun --nproc-per-node 2 -m perfcast replay traces --backend nccl

    TRACE is an execution trace, or the folder that 'perfcast trace record' wrote; several are played one
    after the other, or, with as many --ranks, each by a rank of its own. Under torchrun or Slurm every rank
    runs this command, and rank 0 reports. Nothing in a trace is run as code unless --run-triton
    asks for it; what tensors hold is made up.
    """
    from perfcast.files.writing import check_writable
    from perfcast.measure.collectives.environment import find_place
    from perfcast.verbs.replay.request import request_of

    os.environ.setdefault("KINETO_LOG_LEVEL", _KINETO_SILENT)
    check_writable(asked.profile)
    if asked.repeat == 0 and not generate_folder:
        raise click.UsageError("--repeat 0 measures nothing; it goes with --generate")
    request = request_of(asked)
    place = None if asked.ranks is not None else find_place(os.environ)
    if place is None or place.world_size == 1:
        found = _replay_here(asked, request, generate_folder, is_anonymised=anonymise)
        _report(asked, found, outputs)
        if any(one.played.steps.is_interrupted for one in found):
            raise KeyboardInterrupt
        return
    if generate_folder:
        raise click.UsageError(f"--generate: needs no ranks; run it without {place.launcher}")
    from perfcast.replays.replay import replay_as_rank

    _report(asked, replay_as_rank(request, place) or (), outputs)


def _replay_here(
    asked: ReplayQuestion, request: ReplayRequest, generate_folder: str | None, *, is_anonymised: bool
) -> tuple[Fidelity, ...]:
    """Play in processes that are started here, and write the program that does so where it is asked for."""
    from perfcast.replays.prepare import prepare
    from perfcast.verbs.replay.answer import play

    prepared = prepare(request)
    found: tuple[Fidelity, ...] = ()
    if asked.repeat != 0:
        with status("preparing to play") as on_progress:
            found = play(request, prepared, on_progress)
    if generate_folder:
        _generate(request, prepared, found, generate_folder, is_anonymised=is_anonymised)
    return found


def _generate(
    request: ReplayRequest,
    prepared: Sequence[Prepared],
    found: tuple[Fidelity, ...],
    folder: str,
    *,
    is_anonymised: bool,
) -> None:
    """Write the benchmark, play it once, and say what came of it."""
    from perfcast.replays.generate.proven import generate_proven
    from perfcast.replays.replay import with_gaps, with_measured_gaps
    from perfcast.report.answers import to_plain
    from perfcast.report.data.replay import rank_data
    from perfcast.report.documents.replays.generated import generated_lines

    programs = [one.program for one in prepared]
    with status("generating") as on_progress:
        on_progress(None, "measuring the host's gaps")
        played = [one.played for one in with_measured_gaps(request, prepared, found)]
        if played:
            gaps = [one.gaps_seconds for one in played]
            programs = [with_gaps(program, own) for program, own in zip(programs, gaps, strict=True)]
        proven = generate_proven(
            request,
            programs,
            folder,
            rehearsals=[one.rehearsal for one in played] or None,
            wanted_seconds=[one.wanted_seconds for one in played],
            is_anonymised=is_anonymised,
            fidelity=to_plain(rank_data(found[0])) if found else None,
            on_progress=lambda text: on_progress(None, text),
        )
    for line in generated_lines(proven.made, proven.play):
        say(line, is_error=True)
    if proven.play.state == "failed":
        raise TraceError(f"the generated program failed in a fresh process: {proven.play.reason}")


def _report(asked: ReplayQuestion, found: tuple[Fidelity, ...], outputs: Outputs) -> None:
    from perfcast.verbs.replay.answer import result_of

    if found:
        write_result(outputs, result_of(asked, found), written=[asked.profile] if asked.profile else [])
