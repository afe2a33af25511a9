"""Pairs of real processes: messages there and back over ``torch.distributed``.

Rank 0 decides which pairs are measured next and tells the others; every rank plays its part in rounds of
disjoint pairs, and all results return to rank 0. Before the clock starts the two exchange a message, so that
neither waits for the other's last partner. A large message that takes no longer than a small one counts
with its whole time.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist

from perfcast.core.arrays import Floats, Integers
from perfcast.errors import CalibrationError
from perfcast.measure.mesh_discovery.discover import discover_with_samples
from perfcast.measure.mesh_discovery.found import DiscoveredMesh
from perfcast.measure.mesh_discovery.matrix import PairSamples
from perfcast.measure.mesh_discovery.rounds import rounds_of
from perfcast.units import MIB

_SMALL_BYTES = 8
_SMALL_REPEATS = 5
_LARGE_REPEATS = 3


@dataclass(frozen=True, slots=True)
class PairMeter:
    """This process among those that are measured.

    Attributes:
        backend: 'gloo', or 'nccl' with one GPU per process.
        large_bytes: The message that shows the bandwidth.
        delay: Seconds to add to a message one way between two ranks; to test without a network.
    """

    rank: int
    world_size: int
    backend: str = "gloo"
    large_bytes: int = MIB
    delay: Callable[[int, int, int], float] | None = None

    def measure(self, pairs: Integers) -> tuple[Floats, Floats]:
        """Called on rank 0 while the others ``serve``: one measurement of each pair.

        Raises:
            CalibrationError: A process died or stalls.
        """
        try:
            self._tell(pairs)
            return self._play(pairs)
        except RuntimeError as error:
            raise CalibrationError(f"a rank died or stalls while pairs are measured: {error}") from error

    def serve(self) -> None:
        """Called on the other ranks: play a part in what rank 0 asks for, until it says stop.

        Raises:
            CalibrationError: A process died or stalls.
        """
        try:
            while len(pairs := self._hear()):
                self._play(pairs)
        except RuntimeError as error:
            raise CalibrationError(f"a rank died or stalls while pairs are measured: {error}") from error

    def stop(self) -> None:
        """Called on rank 0: let the others return from ``serve``."""
        self._tell(np.empty((0, 2), dtype=np.int64))

    def _tell(self, pairs: Integers) -> None:
        dist.broadcast(torch.tensor([len(pairs)], device=self._device), src=0)
        if len(pairs):
            dist.broadcast(torch.from_numpy(pairs.astype(np.int64)).contiguous().to(self._device), src=0)

    def _hear(self) -> Integers:
        count = torch.zeros(1, dtype=torch.int64, device=self._device)
        dist.broadcast(count, src=0)
        pairs = torch.zeros((int(count.item()), 2), dtype=torch.int64, device=self._device)
        if len(pairs):
            dist.broadcast(pairs, src=0)
        return np.asarray(pairs.cpu().numpy())

    def _play(self, pairs: Integers) -> tuple[Floats, Floats]:
        """Latency and bandwidth of all pairs; each is written by its first rank and summed over ranks."""
        results = torch.zeros((len(pairs), 2), dtype=torch.float64)
        for indices in rounds_of(pairs):
            for index in indices[(pairs[indices] == self.rank).any(axis=1)]:
                first, second = map(int, pairs[index])
                peer = second if self.rank == first else first
                figures = self._measure_with(peer, leads=self.rank == first)
                if self.rank == first:
                    results[index] = torch.tensor(figures, dtype=torch.float64)
        shared = results.to(self._device)
        dist.all_reduce(shared)
        found = shared.cpu().numpy()
        return found[:, 0], found[:, 1]

    def _measure_with(self, peer: int, leads: bool) -> tuple[float, float]:
        """Seconds of a small message one way, and bytes per second of a large one."""
        small = torch.zeros(_SMALL_BYTES, dtype=torch.uint8, device=self._device)
        large = torch.zeros(self.large_bytes, dtype=torch.uint8, device=self._device)
        self._there_and_back(small, peer, leads)
        latency = statistics.median(self._there_and_back(small, peer, leads) for _ in range(_SMALL_REPEATS))
        whole = statistics.median(self._there_and_back(large, peer, leads) for _ in range(_LARGE_REPEATS))
        transfer = whole - latency if whole > latency else whole
        return latency, self.large_bytes / transfer

    def _there_and_back(self, message: torch.Tensor, peer: int, leads: bool) -> float:
        """Half the time of a round trip."""
        self._synchronize()
        start = time.perf_counter()
        for sends in (leads, not leads):
            if sends:
                if self.delay is not None:
                    time.sleep(self.delay(self.rank, peer, message.numel()))
                dist.send(message, peer)
            else:
                dist.recv(message, peer)
        self._synchronize()
        return (time.perf_counter() - start) / 2

    def _synchronize(self) -> None:
        if self.backend == "nccl":
            torch.cuda.synchronize()

    @property
    def _device(self) -> torch.device:
        return torch.device("cuda", torch.cuda.current_device()) if self.backend == "nccl" else _CPU


_CPU = torch.device("cpu")


def join(rank: int, world_size: int, local_rank: int, init_method: str, stall_seconds: float) -> PairMeter:
    """Meet the other ranks; NCCL where PyTorch sees a GPU for this one, else gloo.

    Raises:
        CalibrationError: The others do not come within ``stall_seconds``.
    """
    backend = "nccl" if torch.cuda.is_available() and local_rank < torch.cuda.device_count() else "gloo"
    if backend == "nccl":
        torch.cuda.set_device(local_rank)
    try:
        dist.init_process_group(
            backend,
            init_method=init_method,
            rank=rank,
            world_size=world_size,
            timeout=timedelta(seconds=stall_seconds),
        )
    except (RuntimeError, ValueError) as error:
        raise CalibrationError(f"rank {rank} of {world_size} did not meet the others: {error}") from error
    return PairMeter(rank, world_size, backend)


def leave() -> None:
    """End the process group."""
    dist.destroy_process_group()


def discover_together(meter: PairMeter, seed: int = 0) -> tuple[DiscoveredMesh, PairSamples] | None:
    """On rank 0 the mesh and all that was measured; None on the others, once rank 0 has it.

    Raises:
        CalibrationError: A process died or stalls.
    """
    if meter.rank != 0:
        meter.serve()
        return None
    found = discover_with_samples(meter.measure, meter.world_size, seed=seed)
    meter.stop()
    return found
