"""Plays the steps that lie beside this file and prints how long they took, as JSON.

    python benchmark.py [--repeat 30] [--warm-up 3] [--device cpu] [--host-gaps] [--lean]
    torchrun --nproc-per-node N benchmark.py

It needs PyTorch alone. A benchmark of several ranks starts them itself where nothing else did.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

FOLDER = Path(__file__).resolve().parent


def main() -> int:
    """The command."""
    sys.path.insert(0, str(FOLDER))
    manifest = json.loads((FOLDER / "manifest.json").read_text(encoding="utf-8"))
    options = parse_arguments(manifest)
    world_size = int(manifest["world_size"])
    has_collectives = bool(manifest["has_collectives"])
    if world_size > 1 and has_collectives and "RANK" not in os.environ:
        return start_ranks(world_size)
    rank = int(os.environ.get("RANK", manifest["rank"]))
    program = import_module(str(manifest["programs"][rank % len(manifest["programs"])]))
    torch.set_num_threads(options.threads)
    device = options.device
    if device == "cuda":
        device = f"cuda:{int(os.environ.get('LOCAL_RANK', '0'))}"
    tensors = import_module("replayed.tensors").Tensors(device, options.seed, has_pauses=options.host_gaps)
    if has_collectives:
        tensors.collectives = import_module("replayed.collectives").Collectives(
            program.GROUPS, tensors.device, options.backend
        )
    with torch.no_grad():
        result = measure(program, tensors, options)
    result |= {"rank": rank, "world_size": world_size, "device": device, "torch": torch.__version__}
    if tensors.collectives is not None:
        tensors.collectives.close()
    print(json.dumps(result), flush=True)
    return 0


def parse_arguments(manifest: dict[str, Any]) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description="A recorded step, played again.")
    parser.add_argument("--repeat", type=int, default=30, help="how often the steps are measured")
    parser.add_argument("--warm-up", type=int, default=3, help="how often they run before that")
    parser.add_argument("--device", default=str(manifest["device"]), help="default: %(default)s")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch; default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of the made-up contents")
    parser.add_argument("--host-gaps", action="store_true", help="keep the host busy where it was")
    parser.add_argument("--backend", default="", help="of collectives: gloo or nccl; default: by device")
    parser.add_argument(
        "--lean",
        action="store_true",
        help="make given tensors when first needed and free them after their last use, off the clock",
    )
    options = parser.parse_args()
    if options.repeat < 1 or options.warm_up < 0 or options.threads < 1:
        parser.error("--repeat and --threads are at least 1, --warm-up at least 0")
    return options


def measure(program: ModuleType, tensors: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Plays the steps; their times in seconds."""
    if not options.lean:
        make(program, tensors, program.GIVEN)
    has_autograd = is_noted(program, tensors, options.lean)
    wall: list[list[float]] = []
    processor: list[list[float]] = []
    for _ in range(options.warm_up + options.repeat):
        if tensors.collectives is not None:
            tensors.collectives.line_up()
        times = [play(program, tensors, program.STEPS[step], options.lean) for step in program.ORDER]
        wall.append([time[0] for time in times])
        processor.append([time[1] for time in times])
    wall, processor = wall[options.warm_up :], processor[options.warm_up :]
    result: dict[str, Any] = {
        "num_steps": len(program.ORDER),
        "repeat": options.repeat,
        "host_gaps": options.host_gaps,
        "autograd": has_autograd,
        "median_step_seconds": middle(wall),
        "median_step_processor_seconds": middle(processor),
        "step_seconds": wall,
        "step_processor_seconds": processor,
    }
    if tensors.device.type == "cuda":
        result["peak_bytes"] = torch.cuda.max_memory_allocated(tensors.device)
    return result


def is_noted(program: ModuleType, tensors: Any, is_lean: bool) -> bool:
    """Plays all once, noted by autograd as recorded; whether that works. If not, nothing is noted."""
    try:
        for step in program.ORDER:
            play(program, tensors, program.STEPS[step], is_lean)
    except RuntimeError as error:
        if tensors.collectives is not None:
            raise
        print(f"played without autograd: {error}", file=sys.stderr)
        torch.set_grad_enabled(False)
        tensors.note = bool
        return False
    return True


def play(program: ModuleType, tensors: Any, step: Any, is_lean: bool) -> tuple[float, float]:
    """One step; seconds by the clock and of the processor."""
    if not is_lean:
        return clocked(tensors, step)
    seconds = processor = 0.0
    for part in step:
        make(program, tensors, part.needs.split())
        times = clocked(tensors, (part,))
        for name in part.done.split():
            delattr(tensors, name)
        seconds, processor = seconds + times[0], processor + times[1]
    return seconds, processor


def clocked(tensors: Any, parts: Any) -> tuple[float, float]:
    """Parts in a row; seconds by the clock and of the processor."""
    synchronize(tensors.device)
    start, processor = time.perf_counter(), time.process_time()
    for part in parts:
        part.run(tensors)
    if tensors.collectives is not None:
        tensors.collectives.finish()
    synchronize(tensors.device)
    return time.perf_counter() - start, time.process_time() - processor


def make(program: ModuleType, tensors: Any, names: Any) -> None:
    """Given tensors by name."""
    for name in names:
        setattr(tensors, name, program.GIVEN[name](tensors))


def synchronize(device: torch.device) -> None:
    """Waits for what the device still does."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def middle(rounds: list[list[float]]) -> float:
    """The median over repeats of the mean step."""
    return statistics.median(statistics.fmean(times) for times in rounds)


def start_ranks(world_size: int) -> int:
    """This program once for each rank, on this machine; the first exit code that is not 0."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {"WORLD_SIZE": str(world_size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    command = [sys.executable, "-I", str(Path(__file__).resolve()), *sys.argv[1:]]
    ranks = [
        subprocess.Popen(command, env={**os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(world_size)
    ]
    codes = [rank.wait() for rank in ranks]
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main())
