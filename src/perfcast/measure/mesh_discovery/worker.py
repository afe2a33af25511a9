"""Processes that are launched here to be measured: run as a program with a rank, the ranks and a folder."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from perfcast.errors import PerfcastError
from perfcast.files.typed_json import read_typed, write_typed
from perfcast.files.writing import write_bytes_atomically
from perfcast.measure.collectives.launch import run_together
from perfcast.measure.mesh_discovery.found import DiscoveredMesh
from perfcast.measure.mesh_discovery.matrix import PairSamples, checked_pairs
from perfcast.printer.streams import say
from perfcast.ranges import LAUNCHED

_RESULT = "found.json"
_MEETING = "meeting"


def launch_and_discover(
    num_ranks: int, seed: int = 0, stall_seconds: float = 25.0
) -> tuple[DiscoveredMesh, PairSamples]:
    """Launch processes on this machine and discover their mesh: it, and all that was measured.

    Raises:
        InputError: A number of ranks that cannot be.
        CalibrationError: A process died or stalls; the others are stopped.
    """
    checked_pairs([], num_ranks)
    LAUNCHED.check("--ranks", num_ranks)
    with tempfile.TemporaryDirectory(prefix="perfcast-") as name:
        folder = Path(name)
        commands = [
            [sys.executable, "-m", __name__, str(rank), str(num_ranks), name, str(seed), str(stall_seconds)]
            for rank in range(num_ranks)
        ]
        run_together(commands, folder)
        mesh, samples = read_typed((folder / _RESULT).read_bytes())
        assert isinstance(mesh, DiscoveredMesh)
        assert isinstance(samples, PairSamples)
        return mesh, samples


def main(arguments: list[str]) -> int:
    """One rank; rank 0 leaves the samples in the folder."""
    from perfcast.measure.mesh_discovery.pairs import discover_together, join, leave

    rank, num_ranks, seed = int(arguments[0]), int(arguments[1]), int(arguments[3])
    folder, stall_seconds = Path(arguments[2]), float(arguments[4])
    try:
        meter = join(rank, num_ranks, rank, f"file://{folder / _MEETING}", stall_seconds)
        found = discover_together(meter, seed)
        if found is not None:
            write_bytes_atomically(folder / _RESULT, write_typed(found))
        leave()
    except PerfcastError as error:
        say(str(error), is_error=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
