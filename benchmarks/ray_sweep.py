"""A sweep of 10,000 cells on a Ray cluster of two nodes whose workers are killed on the way.

Run by hand: ``python benchmarks/ray_sweep.py [--cells 10000] [--search memory|plans]``; needs
``pip install 'perfcast[ray]'``. A cell of ``memory`` weighs every plan of a small space (some 10 ms of a
processor), one of ``plans`` also times them. Both nodes are on this machine, with one processor each:

1. one process, no Ray: what the others must equal to the byte;
2. two nodes, a busy worker killed (SIGKILL) at 40 %, into an empty store;
3. the same again: nothing may be computed;
4. two nodes, the driver killed at 40 %, into an empty store; then again, to the end;
5. two nodes, one of them killed with its worker at 40 %, into an empty store.

Each search notes in a file of its process that it was opened and which cell it searched: what was computed
is counted there, not by what the sweep says of itself. Exit code 1 where something is lost or differs.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfcast.searches.sweep.cells import Cell, Row, SearchCell, SweepJob, expand_grid, list_versions
from perfcast.searches.sweep.plans import PLAN_COLUMNS, PlanSearch, open_plan_search, plan_sweep
from perfcast.searches.sweep.ray_pool import ray_backend
from perfcast.searches.sweep.run import SweepProgress, SweepResult, run_sweep
from perfcast.searches.sweep.store import write_table
from perfcast.searches.sweep.workers import OpenPool, open_local_pool
from perfcast.units import format_duration

MODELS = ("gpt2-large", "gpt2-xl", "llama3-8b", "llama3-70b", "mixtral-8x7b")
CLUSTERS = ("dgx-h100:8", "dgx-h100:16", "dgx-h100:32", "dgx-h100:64")
LENGTHS = tuple(range(512, 512 * 21, 512))
FEW = {
    "recompute": "none",
    "schedule": "1f1b",
    "cp": 1,
    "pp": 1,
    "mbs": 1,
    "zero": 1,
    "sp": 0,
    "offload": "none",
}
MEMORY_COLUMNS: Mapping[str, type] = {"least_bytes": float, "num_plans": int, "num_fitting": int}
KILLED_AT = 0.4


def open_noted_search(settings: Mapping[str, Any]) -> SearchCell:
    """A search that notes what it does in a file of its process."""
    search = open_memory_search() if settings["search"] == "memory" else open_plan_search(settings["plans"])
    note = Path(settings["notes"]) / str(os.getpid())
    with note.open("a") as file:
        file.write("opened\n")

    def search_cell(cell: Cell) -> list[Row]:
        with note.open("a") as file:
            file.write(f"{cell}\n")
        return list(search(cell))

    return search_cell


def open_memory_search() -> SearchCell:
    """How many plans of a small space fit, and what the smallest takes."""
    from functools import cache

    from perfcast.catalogs.clusters import load_cluster
    from perfcast.catalogs.devices import load_device
    from perfcast.core.training import Training
    from perfcast.memory_use.footprint import footprint_columns
    from perfcast.prediction.model import read_model
    from perfcast.searches.space.definition import Space
    from perfcast.searches.space.enumeration import enumerate_plans

    @cache
    def sizes_of(model: str) -> Any:
        return read_model(model).sizes

    def search(cell: Cell) -> list[Row]:
        model, cluster = sizes_of(cell.model), load_cluster(cell.cluster)
        plans = enumerate_plans(
            model, cluster.num_devices, cell.global_batch_size, cell.sequence_length, Space(fixed=FEW)
        )
        device = load_device(cluster.device)
        taken = footprint_columns(
            model, plans, Training(framework="megatron"), cell.sequence_length, device=device
        ).device_bytes
        fitting = int((taken <= device.memory_bytes).sum())
        return [{"least_bytes": float(taken.min()), "num_plans": len(plans), "num_fitting": fitting}]

    return search


def make_job(search: str, notes: Path) -> SweepJob:
    plans = plan_sweep(PlanSearch(cost_model="roofline", fixed=FEW)).settings
    notes.mkdir(exist_ok=True)
    settings = {"search": search, "plans": plans, "notes": str(notes)}
    return SweepJob(open_noted_search, MEMORY_COLUMNS if search == "memory" else PLAN_COLUMNS, settings)


def make_cells(count: int) -> tuple[Cell, ...]:
    most = -(-count // (len(MODELS) * len(CLUSTERS) * len(LENGTHS)))
    return expand_grid(MODELS, CLUSTERS, range(64, 64 * most + 1, 64), LENGTHS)[:count]


@dataclass(frozen=True)
class Notes:
    """What the processes of a run noted."""

    num_processes: int
    num_opened: int
    num_searched: int
    num_twice: int


def read_notes(folder: Path) -> Notes:
    lines = [line for file in sorted(folder.iterdir()) for line in file.read_text().splitlines()]
    searched = [line for line in lines if line != "opened"]
    return Notes(
        len(list(folder.iterdir())), lines.count("opened"), len(searched), len(searched) - len(set(searched))
    )


class Trigger:
    """Does something once, when a share of the cells is finished."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act, self.done = act, False

    def __call__(self, progress: SweepProgress) -> None:
        if not self.done and progress.num_finished >= KILLED_AT * progress.num_cells:
            self.done = True
            self._act()


def kill_busy_worker(notes: Path) -> None:
    """Kill the worker that noted something last."""
    newest = max(notes.iterdir(), key=lambda file: file.stat().st_mtime_ns)
    os.kill(int(newest.name), signal.SIGKILL)


@dataclass(frozen=True)
class Bench:
    """What all runs share, and the checks they have passed or not."""

    folder: Path
    search: str
    cells: tuple[Cell, ...]
    failures: list[str]
    versions: Mapping[str, str]

    def run(
        self, name: str, store: str, open_pool: OpenPool, act: Callable[[Path], None] | None = None
    ) -> SweepResult:
        notes = self.folder / f"{store}-notes"
        job = make_job(self.search, notes)
        if job.versions != self.versions:
            raise SystemExit("files of the package changed on the way: run it on a tree that nobody edits")
        began = time.perf_counter()
        trigger = Trigger(lambda: act(notes)) if act else None
        result = run_sweep(self.cells, job, self.folder / store, open_pool=open_pool, watch=trigger)
        seconds, noted, did = time.perf_counter() - began, read_notes(notes), result.progress
        files = len(list(result.folder.glob("*.parquet")))
        print(
            f"{name:<34} {format_duration(seconds):>9} {did.num_computed:>9} {did.num_reused:>7} "
            f"{did.num_repeated:>9} {noted.num_searched:>9} {noted.num_twice:>6} {noted.num_processes:>8} "
            f"{noted.num_opened:>7} {files:>6}",
            flush=True,
        )
        self.check(did.num_finished == len(self.cells), f"{name}: {did.num_finished} cells finished")
        self.check(noted.num_opened == noted.num_processes, f"{name}: a process opened its search twice")
        return result

    def check(self, holds: bool, failure: str) -> None:
        if not holds:
            self.failures.append(failure)
            print(f"FAILED {failure}")


def main() -> int:
    options = parse_options()
    if options.drive:
        return drive(options)
    from ray.cluster_utils import Cluster

    with tempfile.TemporaryDirectory(prefix="perfcast-ray-sweep-") as scratch:
        bench = Bench(Path(scratch), options.search, make_cells(options.cells), [], list_versions())
        print(f"{len(bench.cells)} cells, search {options.search}")
        print(
            f"{'':34} {'wall':>9} {'computed':>9} {'reused':>7} {'repeated':>9} {'searched':>9} {'twice':>6} "
            f"{'workers':>8} {'opened':>7} {'files':>6}"
        )
        alone = bench.run("one process", "alone", open_local_pool)
        wanted = write_table(alone.table)
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        try:
            second = cluster.add_node(num_cpus=1)
            run_on_cluster(bench, wanted, cluster, second)
        finally:
            cluster.shutdown()
    print(f"{len(wanted)} bytes of table, {alone.table.height} rows")
    print("all complete and equal" if not bench.failures else f"{len(bench.failures)} checks failed")
    return int(bool(bench.failures))


def run_on_cluster(bench: Bench, wanted: bytes, cluster: Any, second: Any) -> None:
    def same(name: str, result: SweepResult) -> None:
        bench.check(write_table(result.table) == wanted, f"{name}: another table than one process's")

    backend = ray_backend(cluster.address)
    killed = bench.run("two nodes, a worker killed", "killed", backend, kill_busy_worker)
    same("worker killed", killed)
    bench.check(killed.progress.num_repeated >= 1, "no batch was lost with the worker")
    again = bench.run("the same again", "killed", backend)
    same("again", again)
    bench.check(again.progress.num_computed == 0, "the second run computed something")
    kept = kill_driver(bench, cluster.address)
    went_on = bench.run("after a killed driver", "driver", backend)
    same("after a killed driver", went_on)
    bench.check(went_on.progress.num_reused >= kept > 0, f"{kept} kept, {went_on.progress.num_reused} reused")
    lost = bench.run("two nodes, one killed", "node", backend, lambda notes: kill_node(second, notes))
    same("a node killed", lost)


def kill_node(node: Any, notes: Path) -> None:
    """Kill a node's raylet and workers at once, in the middle of what they do."""
    raylet = node.all_processes["raylet"][0].process.pid
    workers = [int(file.name) for file in notes.iterdir() if parent_of(int(file.name)) == raylet]
    for process in (raylet, *workers):
        os.kill(process, signal.SIGKILL)


def parent_of(process: int) -> int | None:
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except FileNotFoundError:
        return None


def kill_driver(bench: Bench, address: str) -> int:
    """Start the sweep in another process, kill it at 40 %, and return how many cells its store holds."""
    store, notes = bench.folder / "driver", bench.folder / "driver-notes"
    job = make_job(bench.search, notes)
    options = ["--cells", str(len(bench.cells)), "--search", bench.search, "--address", address]
    driver = subprocess.Popen(
        [sys.executable, __file__, *options, "--drive", str(bench.folder)], stderr=subprocess.DEVNULL
    )
    import polars as pl

    kept = 0
    while kept < KILLED_AT * len(bench.cells) and driver.poll() is None:
        time.sleep(0.2)
        kept = sum(pl.read_parquet(file)["key"].n_unique() for file in (store / job.key).glob("*.parquet"))
    driver.kill()
    driver.wait()
    print(f"{'driver killed':<34} {'':>9} {kept:>9}")
    return kept


def drive(options: argparse.Namespace) -> int:
    """The driver that is killed."""
    folder = Path(options.drive)
    job = make_job(options.search, folder / "driver-notes")
    run_sweep(make_cells(options.cells), job, folder / "driver", open_pool=ray_backend(options.address))
    return 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cells", type=int, default=10_000)
    parser.add_argument("--search", choices=("memory", "plans"), default="memory")
    parser.add_argument("--address", help=argparse.SUPPRESS)
    parser.add_argument("--drive", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
