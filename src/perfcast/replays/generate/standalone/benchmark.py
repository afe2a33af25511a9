"""Plays the steps that lie beside this file and prints how long they took, as JSON.

    python benchmark.py [--repeat 30] [--warm-up 3] [--device cpu] [--host-gaps] [--lean]
    torchrun --nproc-per-node N benchmark.py

It needs PyTorch alone. A benchmark of several ranks starts them itself where nothing else did.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

FOLDER = Path(__file__).resolve().parent
#: Collectives whose tensors are as large among any number of ranks.
OF_ANY_SIZE = {"all_reduce", "broadcast", "reduce", "barrier"}
#: Messages from one rank to another.
BETWEEN_TWO = {"send", "receive"}


def main() -> int:
    """The command."""
    sys.path.insert(0, str(FOLDER))
    manifest = json.loads((FOLDER / "manifest.json").read_text(encoding="utf-8"))
    options = parse_arguments(manifest)
    has_collectives = bool(manifest["has_collectives"]) and not options.alone
    if has_collectives and "RANK" not in os.environ:
        if int(manifest["world_size"]) > 1:
            return start_ranks(int(manifest["world_size"]))
        os.environ.update(meeting(1), RANK="0")
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    rank = int(os.environ.get("RANK", manifest["rank"]))
    program = import_module(str(manifest["programs"][rank % len(manifest["programs"])]))
    groups = groups_among(program.GROUPS, manifest, world_size) if has_collectives else {}
    if groups is None:
        return refused(manifest, world_size)
    torch.set_num_threads(options.threads)
    device = options.device
    if device == "cuda":
        device = f"cuda:{int(os.environ.get('LOCAL_RANK', '0'))}"
    tensors = import_module("replayed.tensors").Tensors(device, options.seed, has_pauses=options.host_gaps)
    if has_collectives:
        try:
            tensors.collectives = import_module("replayed.collectives").Collectives(
                groups, tensors.device, options.backend, options.timeout
            )
        except (RuntimeError, ValueError) as error:
            return not_met(rank, world_size, options.timeout, error)
    elif manifest["has_collectives"]:
        tensors.collectives = import_module("replayed.collectives").Muted()
    try:
        with torch.no_grad():
            result = measure(program, tensors, options)
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError, NotImplementedError) as error:
        print(described(error), file=sys.stderr, flush=True)
        return 1
    result |= {"rank": rank, "world_size": world_size, "device": device, "torch": torch.__version__}
    if tensors.collectives is not None:
        tensors.collectives.close()
    print(json.dumps(result), flush=True)
    return 0


def parse_arguments(manifest: dict[str, Any]) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description="A recorded step, played again.")
    parser.add_argument(
        "--repeat", type=int, default=30, help="how often the steps are measured; 0: once, cold"
    )
    parser.add_argument("--warm-up", type=int, default=3, help="how often they run before that")
    parser.add_argument("--device", default=str(manifest["device"]), help="default: %(default)s")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch; default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of the made-up contents")
    parser.add_argument("--host-gaps", action="store_true", help="keep the host busy where it was")
    parser.add_argument("--backend", default="", help="of collectives: gloo or nccl; default: by device")
    parser.add_argument(
        "--timeout", type=float, default=300.0, help="seconds that ranks wait for each other; default: 300"
    )
    parser.add_argument("--alone", action="store_true", help="one rank; collectives are left out")
    parser.add_argument(
        "--lean",
        action="store_true",
        help="make given tensors when first needed and free them after their last use, off the clock",
    )
    options = parser.parse_args()
    if options.repeat < 0 or options.warm_up < 0 or options.threads < 1 or not options.timeout >= 1.0:
        parser.error("--threads and --timeout are at least 1, --repeat and --warm-up at least 0")
    return options


def groups_among(
    groups: Mapping[str, Sequence[int]], manifest: dict[str, Any], world_size: int
) -> dict[str, tuple[int, ...]] | None:
    """The groups among the ranks that are there; ``None`` where their tensors would have other sizes.

    Another number of ranks than the benchmark's plays it where every collective is of all of them, and of
    a kind whose tensors are as large among any number.
    """
    own = int(manifest["world_size"])
    if world_size == own:
        return {name: tuple(ranks) for name, ranks in groups.items()}
    is_whole = all(len(ranks) == own for ranks in groups.values())
    if not is_whole or not OF_ANY_SIZE.issuperset(manifest["collectives"]):
        return None
    return {name: tuple(range(world_size)) for name in groups}


def refused(manifest: dict[str, Any], world_size: int) -> int:
    """Says which number of ranks this benchmark is of."""
    own, names = int(manifest["world_size"]), list(manifest["collectives"])
    reason, other = "has other sizes", f", or generate it again with --world-size {world_size}"
    if not BETWEEN_TWO.isdisjoint(names):
        names = [name for name in names if name in BETWEEN_TWO]
        reason, other = "has no other end", ""
    print(
        f"this benchmark is of {own} ranks, and {world_size} were started: what its "
        f"{', '.join(names)} exchange {reason} among another number. "
        f"Start {own} (torchrun --nproc-per-node {own} benchmark.py), "
        f"play one rank without collectives (--alone){other}",
        file=sys.stderr,
    )
    return 2


def not_met(rank: int, world_size: int, timeout: float, error: BaseException) -> int:
    """Says that the ranks did not find each other."""
    first = (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(".")
    print(
        f"rank {rank} of {world_size} did not meet the others within {timeout:.0f} s: {first}. "
        f"Start all of them (torchrun --nproc-per-node {world_size} benchmark.py), wait longer (--timeout), "
        "or play one rank without collectives (--alone)",
        file=sys.stderr,
    )
    return 2


def described(error: BaseException) -> str:
    """What failed in which line of the steps, on one line."""
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    frames = [
        one for one in traceback.extract_tb(error.__traceback__) if FOLDER in Path(one.filename).parents
    ]
    steps = [one for one in frames if Path(one.filename).name.startswith("steps_")]
    if not steps:
        return f"failed: {first}"
    return f"failed at {os.path.relpath(steps[-1].filename, FOLDER)}:{steps[-1].lineno}: {first}"


def measure(program: ModuleType, tensors: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Plays the steps; their times in seconds."""
    if not options.lean:
        make(program, tensors, program.GIVEN)
    has_autograd = is_noted(program, tensors, options.lean) if options.repeat else True
    wall: list[list[float]] = []
    processor: list[list[float]] = []
    num_warm_up = options.warm_up if options.repeat else 0
    for _ in range(num_warm_up + max(options.repeat, 1)):
        if tensors.collectives is not None:
            tensors.collectives.line_up()
        times = [play(program, tensors, program.STEPS[step], options.lean) for step in program.ORDER]
        wall.append([time[0] for time in times])
        processor.append([time[1] for time in times])
    wall, processor = wall[num_warm_up:], processor[num_warm_up:]
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
    """Plays all once, without the other ranks, noted by autograd as recorded; whether that works.

    If not, nothing is noted.
    """
    others = tensors.collectives
    if others is not None:
        tensors.collectives = import_module("replayed.collectives").Muted()
    try:
        for step in program.ORDER:
            play(program, tensors, program.STEPS[step], is_lean)
    except RuntimeError as error:
        print(f"played without autograd: {described(error)}", file=sys.stderr)
        torch.set_grad_enabled(False)
        tensors.note = bool
        for step in program.ORDER:
            play(program, tensors, program.STEPS[step], is_lean)
        return False
    finally:
        tensors.collectives = others
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


def meeting(world_size: int) -> dict[str, str]:
    """Where ranks on this machine meet, as PyTorch reads it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return {"WORLD_SIZE": str(world_size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def start_ranks(world_size: int) -> int:
    """This program once for each rank, on this machine; the first exit code that is not 0.

    Where one rank fails, or this process is told to end, the others are stopped.
    """
    common = meeting(world_size)
    command = [sys.executable, "-I", str(Path(__file__).resolve()), *sys.argv[1:]]
    told: list[int] = []  # noted alone, so that a rank that is just being started is known when all are ended
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    ranks: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(world_size):
            own = {**os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            ranks.append(subprocess.Popen(command, env=own))
        while not told and any(rank.poll() is None for rank in ranks):
            if any(rank.poll() for rank in ranks):
                time.sleep(1.0)
                break
            time.sleep(0.05)
    except KeyboardInterrupt:
        return 130
    finally:
        end(ranks)
    if told:
        return 128 + told[0]
    codes = [rank.wait() for rank in ranks]
    return next((code for code in codes if code > 0), next((1 for code in codes if code), 0))


def end(ranks: list[subprocess.Popen[bytes]]) -> None:
    """Stops those that still run."""
    for rank in ranks:
        if rank.poll() is None:
            rank.terminate()
    for rank in ranks:
        try:
            rank.wait(5.0)
        except subprocess.TimeoutExpired:
            rank.kill()


if __name__ == "__main__":
    sys.exit(main())
