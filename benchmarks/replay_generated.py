"""Plays a generated benchmark a few steps at a time, as it is told on standard input; knows PyTorch only.

``python -I benchmarks/replay_generated.py FOLDER``, started by ``benchmarks/replay.py``.
"""

import json
import os
import sys
from importlib import import_module


def main() -> None:
    """Steps are those of the generated program: its own tensors, its own clock."""
    folder = sys.argv[1]
    sys.path.insert(0, folder)
    sys.argv[1:] = []
    benchmark = import_module("benchmark")
    torch = import_module("torch")
    manifest = json.loads((benchmark.FOLDER / "manifest.json").read_text(encoding="utf-8"))
    programs = manifest["programs"]
    program = import_module(programs[int(os.environ.get("RANK", "0")) % len(programs)])
    torch.set_num_threads(1)
    tensors = import_module("replayed.tensors").Tensors("cpu", 0, has_pauses=True)
    if manifest["has_collectives"]:
        collectives = import_module("replayed.collectives")
        tensors.collectives = collectives.Collectives(program.GROUPS, tensors.device, "gloo")
    with torch.no_grad():
        benchmark.make(program, tensors, program.GIVEN)
        benchmark.is_noted(program, tensors, False)
        print("ready", flush=True)
        for line in sys.stdin:
            times = [
                benchmark.play(program, tensors, program.STEPS[step], False)[1]
                for _ in range(int(line))
                for step in program.ORDER
            ]
            print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main()
