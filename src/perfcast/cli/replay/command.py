"""``perfcast replay``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from perfcast.cli.output import Outputs, output_options, write_answer
from perfcast.cli.progress import status
from perfcast.cli.replay.options import ReplayOptions, replay_options
from perfcast.cli.replay.request import build_request

if TYPE_CHECKING:
    from perfcast.replays.judge.fidelity import Fidelity
    from perfcast.replays.prepare import Prepared
    from perfcast.replays.request import ReplayRequest

#: PyTorch's profiler writes a line to the error output at each start and end; from this level on, none.
_KINETO_SILENT = "6"


@click.command()
@replay_options
@output_options(html=True)
def replay(options: ReplayOptions, outputs: Outputs) -> None:
    """Run a recorded step again as a benchmark, and say how well it behaves like the original.

    \b
    perfcast trace record --out traces -- python train.py
    perfcast replay traces --host-gaps
    perfcast replay trace.et.json.gz --device cpu --generate benchmark/
    torchrun --nproc-per-node 2 -m perfcast replay traces --backend nccl

    TRACE is an execution trace, or the folder that 'perfcast trace record' wrote; several are played one
    after the other, or, with as many --ranks, each by a rank of its own. Under torchrun or Slurm every rank
    runs this command, and rank 0 reports. Nothing in a trace is run as code; what tensors hold is made up.
    """
    from perfcast.files import check_writable
    from perfcast.measure.collectives.environment import find_place

    os.environ.setdefault("KINETO_LOG_LEVEL", _KINETO_SILENT)
    check_writable(options.profile_path)
    options.check()
    request = build_request(options)
    place = None if options.num_ranks is not None else find_place(os.environ)
    if place is None or place.world_size == 1:
        _replay_here(request, options, outputs)
        return
    if options.generate_folder:
        raise click.UsageError(f"--generate: needs no ranks; run it without {place.launcher}")
    from perfcast.replays.replay import replay_as_rank

    found = replay_as_rank(request, place)
    if found is not None:
        _report(found, outputs, options.profile_path)


def _replay_here(request: ReplayRequest, options: ReplayOptions, outputs: Outputs) -> None:
    """Play in processes that are started here."""
    from perfcast.replays.prepare import prepare
    from perfcast.replays.replay import replay as replay_prepared

    prepared = prepare(request)
    found: tuple[Fidelity, ...] = ()
    if options.repeat != 0:
        is_alone = (request.num_ranks or len(prepared)) == 1
        with _progress(request.play.repeats + request.play.warm_up, is_shown=is_alone) as advance:
            found = replay_prepared(request, prepared, on_repetition=advance)
    if options.generate_folder:
        _generate(prepared, found, options.generate_folder, is_anonymised=options.anonymise)
    if found:
        _report(found, outputs, options.profile_path)
    if any(one.played.steps.is_interrupted for one in found):
        raise KeyboardInterrupt


@contextmanager
def _progress(total: int, *, is_shown: bool) -> Iterator[Callable[[int], None]]:
    """A function to call for every repetition, which standard error then counts."""
    if not is_shown:
        yield lambda number: None
        return
    with status("preparing to play") as tell:
        yield lambda number: tell((number + 1) / total, f"repetition {number + 1} of {total}")


def _generate(
    prepared: Sequence[Prepared], found: tuple[Fidelity, ...], folder: str, *, is_anonymised: bool
) -> None:
    from perfcast.replays.generate.generate import generate
    from perfcast.replays.replay import with_gaps
    from perfcast.report.answers import to_plain
    from perfcast.report.data.replay import rank_data

    fidelity = to_plain(rank_data(found[0])) if found else None
    programs = [one.program for one in prepared]
    if len(found) == len(programs):
        programs = [
            with_gaps(program, one.played.gaps_seconds) for program, one in zip(programs, found, strict=True)
        ]
    made = generate(programs, folder, is_anonymised=is_anonymised, fidelity=fidelity)
    click.echo(f"wrote {made.folder}", err=True)


def _report(found: tuple[Fidelity, ...], outputs: Outputs, profile_path: str | None) -> None:
    from perfcast.report.data.replay import data_of
    from perfcast.report.documents.replay import document_of

    written = [profile_path] if profile_path else []
    write_answer(outputs, lambda: document_of(found), lambda: data_of(found), written=written)
