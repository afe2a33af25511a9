"""A step of one device that accumulates 32 micro-batches beside one of a single micro-batch.

``python benchmarks/accumulation.py [--model gpt2-xl] [--repeats 2]``. Processor seconds of the whole command,
a process each with nothing kept; the least of the repeats.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys

from goals import Row, report

NUM_MICRO_BATCHES = 32
#: As fast as one, but for what 32 times as many kernels cost where each is looked at once.
MOST_RATIO = 1.25


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="gpt2-xl")
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    one, many = (
        min(measured(options.model, batch) for _ in range(options.repeats))
        for batch in (1, NUM_MICRO_BATCHES)
    )
    print(f"{options.model}: {one:.2f} s of the processor with one micro-batch, {many:.2f} with "
          f"{NUM_MICRO_BATCHES}: {many / one:.2f} times (at most {MOST_RATIO})")  # fmt: skip
    what = f"{options.model}, {NUM_MICRO_BATCHES} micro-batches over one"
    return report(
        [
            Row(f"{options.model}, one micro-batch", one, "CPU s"),
            Row(f"{options.model}, {NUM_MICRO_BATCHES} micro-batches", many, "CPU s"),
            Row(what, many / one, "", MOST_RATIO, source="as fast as one, and a quarter"),
        ]
    )


def measured(model: str, batch: int) -> float:
    """Processor seconds of one forecast."""
    command = [
        sys.executable, "-m", "perfcast", "predict", model, "--device", "h100-sxm",
        "--batch-size", str(batch), "--micro-batch-size", "1", "--sequence-length", "512",
    ]  # fmt: skip
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"PERFCAST_CACHE": "off"}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    raise SystemExit(main())
