"""Pairs of real gloo processes, with delays that make a hierarchy of them."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

from perfcast.measure.mesh_discovery.pairs import PairMeter, discover_together, join, leave

RANKS = 4


def delay_of(rank: int, peer: int, num_bytes: int) -> float:
    """Even and odd ranks lie on two hosts, 8 ms apart."""
    return 0.0 if rank % 2 == peer % 2 else 0.008


def run_rank(rank: int, folder: str, results: Any) -> None:
    meter = join(rank, RANKS, rank, f"file://{folder}/meeting", 60)
    meter = PairMeter(meter.rank, meter.world_size, meter.backend, delay=delay_of)
    found = discover_together(meter)
    leave()
    if found is not None:
        results.put(found[0])


def test_a_hierarchy_of_real_processes_is_found(tmp_path: Path):
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [
        context.Process(target=run_rank, args=(rank, str(tmp_path), results)) for rank in range(RANKS)
    ]
    for process in processes:
        process.start()
    try:
        mesh = results.get(timeout=120)
    finally:
        for process in processes:
            process.join(timeout=20)
            process.kill()
    assert mesh.groups[1] == ((0, 2), (1, 3))
    assert mesh.axes[0].latency_seconds > 0.006
