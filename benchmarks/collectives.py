"""Time to price a million (collective, size, group) triples on one cluster, in one call.

Run by hand: ``python benchmarks/collectives.py [COUNT]``. Prints wall-clock and processor seconds of the
first call and of the second, with the limit that the second is meant to stay under.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from goals import Row, report

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.collective import COLLECTIVES
from perfcast.cost.collective.datasheet import price_collectives
from perfcast.cost.collective.table import collective_table

COUNT = 1_000_000
MOST_SECONDS = 1.0
CLUSTER = "dgx-superpod-h100:16384"


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    cluster = load_cluster(CLUSTER)
    draw = np.random.default_rng(0)
    codes = draw.integers(0, len(COLLECTIVES), count)
    sizes = 2.0 ** draw.uniform(10, 33, count)
    spans = np.stack([2 ** draw.integers(0, top, count) for top in (4, 6, 7)], axis=1)
    print(f"{count} triples on {CLUSTER}")
    print(f"{'':8} {'wall s':>8} {'cpu s':>8} {'limit':>6}")
    cpu = 0.0
    for name in ("first", "second"):
        began, begun = time.perf_counter(), time.process_time()
        price_collectives(cluster, collective_table(codes, sizes, spans))
        wall, cpu = time.perf_counter() - began, time.process_time() - begun
        print(f"{name:8} {wall:8.2f} {cpu:8.2f} {MOST_SECONDS:6.1f}")
    what = f"{count:,} triples priced in one call"
    return report([Row(what, cpu, "CPU s", MOST_SECONDS, source="stated here")])


if __name__ == "__main__":
    sys.exit(main())
