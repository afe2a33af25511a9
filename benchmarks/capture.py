"""Time and memory of capturing large training steps; each in a fresh process.

Run by ``make bench``. Prints one line per case with the limit that it is meant to stay under.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys

from goals import Row, report

CASES = [
    # model, batch size, sequence length, seconds, gigabytes of peak resident memory
    ("gpt3-2.7b", 1, 2048, 6.0, 1.5),
    ("llama3.1-405b", 1, 8192, 10.0, 2.0),
    ("megatron-1t", 1, 2048, 10.0, 2.0),
]

PROGRAM = """
import json, resource, sys, time
clock = time.process_time
model, batch_size, length = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
from perfcast.catalogs.devices import load_device
from perfcast.prediction import Request, build_graph, forecast_from
from perfcast.cost.roofline import Roofline
import torch, transformers
device = load_device("h100-sxm")
request = Request(model=model, batch_size=batch_size, sequence_length=length, dtype="bf16")
start = clock()
graph, program = build_graph(request, device)
captured = clock()
forecast_from(graph, request, device, Roofline(), program)
priced = clock()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps([captured - start, priced - captured, peak, len(graph.nodes), len(graph.operations)]))
"""


def main() -> int:
    processor = platform.processor() or platform.machine()
    print(f"{processor}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(
        f"{'model':16} {'capture s':>10} {'limit':>6} {'price s':>8} "
        f"{'peak GB':>8} {'limit':>6} {'nodes':>7} {'ops':>5}"
    )
    rows = []
    for model, batch_size, length, most_seconds, most_gigabytes in CASES:
        arguments = [sys.executable, "-c", PROGRAM, model, str(batch_size), str(length)]
        output = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
        seconds, pricing, peak, nodes, operations = json.loads(output.splitlines()[-1])
        print(
            f"{model:16} {seconds:10.2f} {most_seconds:6.0f} {pricing:8.2f} "
            f"{peak / 1e9:8.2f} {most_gigabytes:6.1f} {nodes:7d} {operations:5d}"
        )
        rows.append(Row(f"{model} captured", seconds, "CPU s", most_seconds, source="stated here"))
        rows.append(Row(f"{model}, peak memory", peak / 1e9, "GB", most_gigabytes, source="stated here"))
    return report(rows)


if __name__ == "__main__":
    sys.exit(main())
