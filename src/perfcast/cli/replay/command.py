"""``perfcast replay``."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perfcast.cli.replay.options import replay_options

if TYPE_CHECKING:
    from perfcast.replay.judge.fidelity import Fidelity
    from perfcast.replay.replay import Prepared

#: PyTorch's profiler writes a line to the error output at each start and end; from this level on, none.
_KINETO_SILENT = "6"
#: Measured repetitions where none are asked for, and when no other is begun.
_REPEATS, _MAX_SECONDS = 30, 60.0


@click.command()
@replay_options
def replay(**options: Any) -> None:
    """Run a recorded step again as a benchmark, and say how well it behaves like the original.

    \b
    perfcast trace record --out traces -- python train.py
    perfcast replay traces --host-gaps
    perfcast replay trace.et.json.gz --device cpu --generate benchmark/

    TRACE is an execution trace, or the folder that 'perfcast trace record' wrote; several are played one
    after the other, or, with as many --ranks, each by a rank of its own. Nothing in a trace is run as
    code; what tensors hold is made up.
    """
    from perfcast.cli.replay.options import check_options
    from perfcast.files import check_writable

    os.environ.setdefault("KINETO_LOG_LEVEL", _KINETO_SILENT)
    for path in (options["json_path"], options["html"], options["profile_path"]):
        check_writable(path)
    check_options(options)
    prepared = _prepared(options)
    found = _played(prepared, options) if options["repeat"] != 0 else ()
    _generate(prepared, options, found)
    if found:
        _report(found, options)
    if any(one.played.steps.is_interrupted for one in found):
        raise KeyboardInterrupt


def _played(prepared: list[Prepared], options: dict[str, Any]) -> tuple[Fidelity, ...]:
    """What each rank played, beside its recording."""
    from dataclasses import replace as changed

    from perfcast.replay.replay import replay as replay_one
    from perfcast.replay.replay import replay_ranks

    play, module = _play_options(options), options["module"]
    num_ranks = options["num_ranks"] or len(prepared)
    if num_ranks > 1:
        play = changed(play, max_seconds=math.inf)  # ranks have to play equally often
        return replay_ranks(prepared, play, num_ranks=num_ranks, ranks=_rank_options(options), module=module)
    with _progress(play.repeats + play.warm_up) as advance:
        fitted = _fitted(prepared[0], options)
        return (
            replay_one(fitted, play, host_gaps=options["host_gaps"], module=module, on_repetition=advance),
        )


def _prepared(options: dict[str, Any]) -> list[Prepared]:
    """Programs of all ranks; of several recordings one after the other."""
    from dataclasses import replace as changed

    from perfcast.replay.build.select import Mode, Selection
    from perfcast.replay.build.sources import read_sources
    from perfcast.replay.fill.fill import FillOptions, recorded_folder
    from perfcast.replay.play.limits import DEFAULT_LIMITS
    from perfcast.replay.play.modules import load_module
    from perfcast.replay.program.combine import concatenate
    from perfcast.replay.replay import prepare_source
    from perfcast.replay.scale.batch import scale_batch

    limits = changed(DEFAULT_LIMITS, max_tensor_bytes=options["max_tensor_bytes"])
    if options["module"]:
        limits = limits.with_namespaces(load_module(options["module"]))
    selection = Selection(
        steps=options["steps"],
        module=options["subtree"],
        mode=Mode({"compute": "compute", "communication": "communication"}.get(options["only"], "all")),
        allow=options["allow"],
        skip=options["skip"],
    )
    found: list[list[Prepared]] = []
    for path in options["traces"]:
        sources = read_sources(path, options["timeline"], max_bytes=options["max_bytes"])
        found.append([])
        for one in sources:
            folder = Path(options["values"]) if options["values"] else recorded_folder(one.path)
            fills = FillOptions(reuse_fractions=options["reuse"], folder=folder)
            found[-1].append(
                prepare_source(one, selection=selection, device=options["device"], limits=limits, fills=fills)
            )
    if len({len(ranks) for ranks in found}) > 1:
        raise click.UsageError("the TRACEs are of different numbers of ranks")
    if options["num_ranks"] == len(found) > 1 and len(found[0]) == 1:
        found = [[changed(one, program=changed(one.program, rank=k)) for k, (one,) in enumerate(found)]]
    joined = [
        parts[0]
        if len(parts) == 1
        else changed(parts[0], program=concatenate([one.program for one in parts]))
        for parts in zip(*found, strict=True)
    ]
    if options["batch"]:
        before, after = options["batch"]
        joined = [changed(one, program=scale_batch(one.program, before, after)) for one in joined]
    return joined


def _fitted(prepared: Prepared, options: dict[str, Any]) -> Prepared:
    """A rank that plays alone: others' part in collectives only takes its time."""
    from dataclasses import replace as changed

    from perfcast.replay.program.program import CallKind
    from perfcast.replay.scale.fit_ranks import fit_to_ranks

    ranks = _rank_options(options)
    if not any(call.kind is CallKind.COLLECTIVE for call in prepared.program.calls):
        return prepared
    program = fit_to_ranks(
        prepared.program,
        None,
        world_size=ranks.world_size,
        cluster=ranks.cluster,
        is_emulated=ranks.is_emulated,
    )
    return changed(prepared, program=program)


def _play_options(options: dict[str, Any]) -> Any:
    from perfcast.replay.play.player import Preparation
    from perfcast.replay.play.session import PlayOptions

    return PlayOptions(
        repeats=_REPEATS if options["repeat"] is None else options["repeat"],
        max_seconds=_MAX_SECONDS if options["repeat"] is None else math.inf,
        warm_up=options["warm_up"],
        preparation=Preparation(options["prepare"]),
        threads=options["threads"],
        profile_path=options["profile_path"] or "",
    )


def _rank_options(options: dict[str, Any]) -> Any:
    from perfcast.prediction.plan.cluster import cluster_by_name
    from perfcast.replay.ranks.play import RankOptions

    cluster, world_size = None, options["world_size"]
    if options["emulate"]:
        name, _, count = options["emulate"].rpartition(":")
        if not re.fullmatch(r"\d{1,7}", count):
            raise click.BadParameter("'[CLUSTER]:RANKS', such as dgx-h100:64 or :64", param_hint="--emulate")
        cluster, world_size = (cluster_by_name(options["emulate"], None) if name else None), int(count)
    return RankOptions(
        backend=options["backend"],
        is_blocking=options["blocking"],
        world_size=world_size,
        cluster=cluster,
        is_emulated=bool(options["emulate"]),
        is_rebalanced=options["rebalance"],
        host_gaps=options["host_gaps"],
    )


def _progress(total: int) -> Any:
    """A progress bar on a terminal's error output; a function to call for every repetition."""
    from contextlib import contextmanager

    from rich.console import Console
    from rich.progress import Progress

    @contextmanager
    def shown() -> Any:
        console = Console(stderr=True)
        with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
            task = progress.add_task("repetitions", total=total)
            yield lambda number: progress.update(task, completed=number + 1)

    return shown()


def _generate(prepared: list[Prepared], options: dict[str, Any], found: tuple[Fidelity, ...]) -> None:
    if not options["generate_folder"]:
        return
    from perfcast.replay.generate.generate import generate
    from perfcast.replay.replay import with_gaps
    from perfcast.report.replay_json import fidelity_to_dict

    fidelity = fidelity_to_dict(found[0]) if found else None
    programs = [one.program for one in prepared]
    if options["host_gaps"] != "off" and len(found) == len(programs):
        programs = [
            with_gaps(program, one.played.gaps_seconds) for program, one in zip(programs, found, strict=True)
        ]
    made = generate(
        programs,
        options["generate_folder"],
        is_anonymised=options["anonymise"],
        fidelity=fidelity,
    )
    click.echo(f"wrote {made.folder}", err=True)


def _report(found: tuple[Fidelity, ...], options: dict[str, Any]) -> None:
    from rich.console import Console

    from perfcast.files import write_text_atomically
    from perfcast.report.json_format import write_json
    from perfcast.report.replay_html import render_replay_html
    from perfcast.report.replay_json import replay_to_dict
    from perfcast.report.replay_text import print_fidelity

    if options["json_path"]:
        write_json(replay_to_dict(found), options["json_path"])
    if options["html"]:
        write_text_atomically(options["html"], render_replay_html(found))
    if options["json_path"] == "-":
        return
    console = Console(highlight=False)
    for fidelity in found:
        print_fidelity(fidelity, console)
    for path in filter(None, (options["json_path"], options["html"], options["profile_path"])):
        console.print(f"wrote {path}", markup=False)
