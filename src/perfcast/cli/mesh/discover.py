"""``perfcast mesh discover``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perfcast.cli.options.numbers import Number, Whole
from perfcast.cli.output import Outputs, output_options, write_answer
from perfcast.errors import InputError
from perfcast.ranges import DEVICES, MADE_UP, SEED, STALL

if TYPE_CHECKING:
    from perfcast.measure.mesh_discovery.found import DiscoveredMesh
    from perfcast.measure.mesh_discovery.matrix import PairSamples


@click.command(name="discover")
@click.option(
    "--ranks", type=Whole(DEVICES), help="Processes to launch here; left out under torchrun or Slurm."
)
@click.option("--from", "source", metavar="FILE", help="Pairs measured before; nothing is run.")
@click.option("--topology", metavar="FILE", help="What nvidia-smi topo -m printed; nothing is run.")
@click.option(
    "--synthetic", type=Whole(MADE_UP), metavar="N", help="A made-up cluster of N ranks, to see how it works."
)
@click.option("--seed", type=Whole(SEED), default=0, show_default=True, help="Of the choice of pairs.")
@click.option(
    "--stall-seconds", type=Number(STALL), default=25.0, show_default=True, help="Longest wait for a rank."
)
@output_options(html=True)
def discover(
    ranks: int | None,
    source: str | None,
    topology: str | None,
    synthetic: int | None,
    seed: int,
    stall_seconds: float,
    outputs: Outputs,
) -> None:
    """Find the hierarchy of a cluster from latency and bandwidth between pairs of ranks.

    Says the shape of the mesh, the place of every rank, each axis' latency and bandwidth, what does not fit
    (slow links, dead devices, groups of unequal size) and how sure it is. Under torchrun or Slurm every
    rank runs this command and rank 0 reports.
    """

    if sum(option is not None for option in (ranks, source, topology, synthetic)) > 1:
        raise InputError("--ranks, --from, --topology and --synthetic exclude each other; give one")
    if topology is not None:
        from perfcast.measure.topology_matrix import load_topology, mesh_of_topology

        _report(mesh_of_topology(load_topology(topology)), None, outputs)
        return
    found = _found(ranks, source, synthetic, seed, stall_seconds)
    if found is not None:
        _report(*found, outputs)


def _found(
    ranks: int | None, source: str | None, synthetic: int | None, seed: int, stall_seconds: float
) -> tuple[DiscoveredMesh, PairSamples] | None:
    """The mesh and its measurements; None on the ranks that have nothing to report."""
    import os

    from perfcast.measure.collectives.environment import find_place
    from perfcast.measure.mesh_discovery.discover import discover_from_samples
    from perfcast.measure.mesh_discovery.matrix import load_samples

    if synthetic is not None:
        return _synthetic(synthetic, seed)
    if source is not None:
        samples = load_samples(source)
        return discover_from_samples(samples, samples.num_ranks), samples
    if ranks is not None:
        from perfcast.measure.mesh_discovery.worker import launch_and_discover

        return launch_and_discover(ranks, seed, stall_seconds)
    place = find_place(os.environ)
    if place is None:
        raise InputError("nothing to measure: give --ranks N, or run this under torchrun or Slurm")
    from perfcast.measure.mesh_discovery.pairs import discover_together, join, leave

    meter = join(place.rank, place.world_size, place.local_rank, place.init_method, stall_seconds)
    found = discover_together(meter, seed)
    leave()
    return found


def _synthetic(num_ranks: int, seed: int) -> tuple[DiscoveredMesh, PairSamples]:
    import numpy as np

    from perfcast.measure.mesh_discovery.discover import discover_with_samples
    from perfcast.measure.mesh_discovery.synthetic import make_cluster

    draw = np.random.default_rng(seed)
    try:
        cluster = make_cluster(num_ranks, draw)
    except ValueError as error:
        raise InputError(f"--synthetic {num_ranks}: {error}") from error
    return discover_with_samples(lambda pairs: cluster.measure(draw, pairs), num_ranks, seed=seed)


def _report(mesh: DiscoveredMesh, samples: PairSamples | None, outputs: Outputs) -> None:
    from perfcast.report.documents.mesh.discovered import document_of

    record = mesh.to_json() | ({} if samples is None else {"samples": samples.to_json()})
    write_answer(outputs, lambda: document_of(mesh, samples), lambda: record, is_exact=True)
