"""``perfcast trace chakra``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perfcast.cli.options.places import OUTPUT_FOLDER
from perfcast.cli.output import Outputs, output_options, write_answer
from perfcast.cli.trace.options import limit_option, step_numbers, steps_option

if TYPE_CHECKING:
    from perfcast.traces.chakra.astra_sim import NetworkDimension
    from perfcast.traces.chakra.from_trace import TracedWorkload
    from perfcast.traces.chakra.trace import ChakraWorkload


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="TRACE...")
@click.option(
    "--output",
    "--out",
    "folder",
    type=OUTPUT_FOLDER,
    metavar="DIR",
    help="Write Chakra traces of recordings into this folder.",
)
@click.option(
    "--astra-sim",
    is_flag=True,
    help="Write all that ASTRA-sim needs beside them: it takes the folder of two ranks or more as is.",
)
@click.option("--cluster", metavar="NAME:N", help="With --astra-sim, the network; default: as recorded.")
@click.option(
    "--waits/--no-waits",
    default=None,
    help="Whether a rank's waiting for others is written; default: without --astra-sim.",
)
@steps_option
@limit_option
@output_options()
def chakra(
    paths: tuple[str, ...],
    folder: str | None,
    astra_sim: bool,
    cluster: str | None,
    waits: bool | None,
    steps: tuple[int, int] | None,
    max_bytes: int,
    outputs: Outputs,
) -> None:
    """Turn recordings into Chakra traces, or say what Chakra traces (.et) hold.

    \b
    perfcast trace chakra rank*.kineto.json.gz rank*.et.json.gz --out chakra --astra-sim
    perfcast trace chakra chakra/workload.*.et

    TRACE is a timeline of PyTorch's profiler for each rank (or an archive of all), with or without the
    execution traces of the same ranks. Every rank becomes DIR/workload.RANK.et: operators of the host, works
    of each stream, collectives, and gaps, so that the longest path is the recorded step.
    """

    if folder is None:
        given = {
            "--astra-sim": astra_sim,
            "--cluster": cluster,
            "--waits": waits is not None,
            "--steps": steps,
        }
        if any(given.values()):
            raise click.UsageError(f"{next(n for n, v in given.items() if v)}: of writing; give --out DIR")
        _inform(paths, max_bytes, outputs)
        return
    if cluster is not None and not astra_sim:
        raise click.UsageError("--cluster: of --astra-sim")
    found = _convert(paths, steps, not astra_sim if waits is None else waits, max_bytes)
    written = _write(found.workload, folder, _network(found.workload, cluster) if astra_sim else None)
    is_alone = len(found.workload.traces) == 1 or waits or (waits is None and not astra_sim)
    _report(found.workload, found.measured_seconds if is_alone else (), tuple(written), outputs)


def _convert(
    paths: tuple[str, ...], steps: tuple[int, int] | None, waits: bool, max_bytes: int
) -> TracedWorkload:
    from perfcast.traces.chakra.from_trace import chakra_from_traces
    from perfcast.traces.execution_trace.reader import read_execution_traces
    from perfcast.traces.kineto.borrowed_inputs import read_ranks_with_inputs
    from perfcast.traces.summary import TIMELINE, kind_of

    kinds = {path: kind_of(path, max_bytes) for path in paths}
    timelines = [path for path, kind in kinds.items() if kind == TIMELINE]
    others = [path for path, kind in kinds.items() if kind != TIMELINE]
    if not timelines:
        raise click.UsageError("an execution trace has no times; give the timeline of the same rank too")
    traces = read_ranks_with_inputs(timelines, max_bytes=max_bytes)
    described = read_execution_traces(others, max_bytes=max_bytes)
    if described and len(described) != len(traces):
        raise click.UsageError(
            f"{len(described)} execution traces for {len(traces)} timelines; give one for each, in one order"
        )
    return chakra_from_traces(traces, described, step_numbers=step_numbers(steps), with_waits=waits)


def _network(workload: ChakraWorkload, cluster: str | None) -> tuple[NetworkDimension, ...]:
    from perfcast.prediction.plan.cluster import cluster_by_name
    from perfcast.traces.chakra.astra_sim import dimensions_of, network_of

    if cluster is None:
        return network_of(workload)
    counts_itself = ":" in cluster
    return dimensions_of(cluster_by_name(cluster, None if counts_itself else len(workload.traces)))


def _write(workload: ChakraWorkload, folder: str, network: tuple[NetworkDimension, ...] | None) -> list[str]:
    from perfcast.traces.chakra.astra_sim import write_astra_sim, write_folder

    if network is None:
        return [str(path) for path in write_folder(workload, folder)]
    return [str(path) for path in write_astra_sim(workload, folder, network)]


def _inform(paths: tuple[str, ...], max_bytes: int, outputs: Outputs) -> None:
    from perfcast.traces.chakra.reader import groups_in, read_chakra_files, with_ranks
    from perfcast.traces.chakra.trace import ChakraWorkload

    traces = with_ranks(read_chakra_files(paths, max_bytes=max_bytes))
    _report(ChakraWorkload(traces, groups_in(traces)), (), (), outputs)


def _report(
    workload: ChakraWorkload, measured_seconds: tuple[float, ...], written: tuple[str, ...], outputs: Outputs
) -> None:
    from perfcast.report.data.traces.chakra import data_of
    from perfcast.report.documents.traces.chakra import document_of
    from perfcast.traces.chakra.summary import summarize_workload

    summary = summarize_workload(workload, measured_seconds)
    write_answer(outputs, lambda: document_of(summary), lambda: data_of(summary, written), written=written)
