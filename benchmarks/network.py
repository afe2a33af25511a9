"""Time to simulate collectives on networks of different sizes, topology and routing included.

Run by hand: ``python benchmarks/network.py [MOST_DEVICES]`` (30,720 by default). Nodes of eight devices on a
rail-optimised fabric of 64-port switches; a message of 1 GB; also an all-to-all of 1,024 devices, an
all-reduce and an all-to-all around a failed spine, and one whose hashes collide. Prints the simulated time,
how many different flows and moments were played, and wall-clock and processor seconds, with the limit that
the latter are meant to stay under.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from dataclasses import dataclass

from goals import Row, report

from perfcast.core.machine.cluster import Cluster, Level, Link
from perfcast.simulate.network.build import build_topology
from perfcast.simulate.network.fabrics.fat_tree import FatTree
from perfcast.simulate.network.fabrics.rail_optimised import RailOptimised
from perfcast.simulate.network.simulate import simulate_groups
from perfcast.simulate.network.topology import Topology, fail
from perfcast.units import GIGA, MICRO

NODE_SIZE = 8
SIZES = (64, 512, 1024, 4096, 30_720)
LIMIT_SECONDS = 30.0


@dataclass(frozen=True)
class Case:
    name: str
    collective: str
    algorithm: str
    most_devices: int = 1 << 62
    policy: str = "even"


CASES = (
    Case("ring", "all_reduce", "ring"),
    Case("hierarchical", "all_reduce", "hierarchical"),
    Case("double tree", "all_reduce", "double_tree"),
    Case("rings", "all_reduce", "rings"),
    Case("all-to-all", "all_to_all", "direct", most_devices=1024),
)

#: On a fat tree of the same switches that has lost a spine.
BROKEN = (
    Case("all-to-all, spine failed", "all_to_all", "direct", most_devices=512),
    Case("hierarchical, spine failed", "all_reduce", "hierarchical", most_devices=4096),
    Case("hierarchical, failed, hashed", "all_reduce", "hierarchical", most_devices=512, policy="hash"),
)


def main() -> int:
    most = int(sys.argv[1]) if len(sys.argv) > 1 else SIZES[-1]
    processor = platform.processor() or platform.machine()
    print(f"{processor}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(f"{'devices':>7} {'case':28} {'simulated s':>11} {'kinds':>6} {'moments':>7} {'exact':>5} "
          f"{'wall s':>7} {'cpu s':>7}")  # fmt: skip
    slowest = 0.0
    for num_devices in (size for size in SIZES if size <= most):
        for case in (case for case in CASES if num_devices <= case.most_devices):
            slowest = max(slowest, timed(case, topology_of(num_devices), num_devices))
        for case in (case for case in BROKEN if num_devices <= case.most_devices):
            network = fail(build_topology(cluster(num_devices), FatTree(64)), switches=spine(num_devices))
            slowest = max(slowest, timed(case, network, num_devices))
    print(f"slowest {slowest:.1f} s of processor time, limit {LIMIT_SECONDS:.0f} s")
    what = f"slowest collective of up to {most:,} devices"
    return report([Row(what, slowest, "CPU s", LIMIT_SECONDS, source="stated here")])


def cluster(num_devices: int) -> Cluster:
    node = Level("node", NODE_SIZE, Link("nvlink", 1 * MICRO, 400 * GIGA))
    fabric = Level("fabric", num_devices // NODE_SIZE, Link("infiniband", 5 * MICRO, 50 * GIGA))
    return Cluster("benchmark", "benchmark", "made up", (node, fabric))


def topology_of(num_devices: int) -> Topology:
    return build_topology(cluster(num_devices), RailOptimised(64))


def spine(num_devices: int) -> list[str]:
    """One that there is: of the only two tiers, or of the first pod."""
    return ["spine 0" if num_devices <= 64 * 32 else "pod 0 spine 0"]


def timed(case: Case, topology: Topology, num_devices: int) -> float:
    """Print one line; returns processor seconds."""
    began, cpu = time.perf_counter(), time.process_time()
    groups = [range(num_devices)]
    seconds, result = simulate_groups(topology, case.collective, GIGA, groups, case.algorithm, case.policy)
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    print(f"{num_devices:7} {case.name:28} {seconds[0]:11.6f} {result.num_kinds:6} {result.num_events:7} "
          f"{result.is_exact!s:>5} {wall:7.2f} {cpu:7.2f}", flush=True)  # fmt: skip
    return cpu


if __name__ == "__main__":
    sys.exit(main())
