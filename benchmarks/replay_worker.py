"""One process of ``benchmarks/replay.py``: the original or a replay, a few steps at a time as it is told.

``python benchmarks/replay_worker.py ROLE NAME RANK INIT_METHOD PROGRAMS``; ``ROLE`` is ``original``,
``replay`` or ``gaps``. Every line on standard input is a number of steps, answered by their processor
seconds as JSON.
"""

from __future__ import annotations

import gc
import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time

import torch
from replay_models import MODELS
from replay_rank_models import NUM_RANKS, joined

Play = Callable[[int], list[float]]


def original(name: str, rank: int, init_method: str) -> Play:
    """The program that was recorded."""
    torch.manual_seed(0)
    step = MODELS[name]() if name in MODELS else joined(name, rank, init_method)

    def play(num_steps: int) -> list[float]:
        seconds = []
        for _ in range(num_steps):
            before = process_time()
            step()
            seconds.append(process_time() - before)
        return seconds

    return play


def replayed(programs: Path, rank: int, init_method: str, *, has_gaps: bool) -> Play:
    """The replay of its recording."""
    from perfcast.measure.collectives.environment import Place
    from perfcast.replays.communication.play import CollectiveRunner
    from perfcast.replays.play.player import Player
    from perfcast.replays.ranks.context import join

    with programs.open("rb") as file:
        program, gaps = pickle.load(file)[rank]  # written by the process that started this one
    collective_runner = None
    if init_method:
        context = join(Place(rank, NUM_RANKS, rank, init_method, "replay"), "gloo")
        collective_runner = CollectiveRunner(program, context)
    player = Player(program, collective_runner=collective_runner)
    player.rehearse()
    player.set_gaps(gaps if has_gaps else ())
    gc.freeze()  # a replay looks for garbage before each run: not among what the program itself is

    def play(num_steps: int) -> list[float]:
        return list(player.run(num_steps, warm_up=0).processor_seconds)

    return play


def main() -> None:
    """Steps until standard input ends."""
    role, name, rank, init_method, programs = sys.argv[1:]
    torch.set_num_threads(1)
    if role == "original":
        play = original(name, int(rank), init_method)
    else:
        play = replayed(Path(programs), int(rank), init_method, has_gaps=role == "gaps")
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(play(int(line))), flush=True)


if __name__ == "__main__":
    main()
