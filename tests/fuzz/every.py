"""All targets, some at a time: ``python tests/fuzz/every.py --cases 100000``.

Ctrl-C stops; the next call goes on, and targets that were done stay done. Once all are done, it begins anew.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
#: A process that dies by an input is started again so often.
MOST_STARTS = 5
STATUS_SECONDS = 30.0


class Everything:
    """The processes that run, and what is left to do."""

    def __init__(self, names: list[str], asked: argparse.Namespace) -> None:
        self.asked, self.left, self.all = asked, list(names), list(names)
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.starts: dict[str, int] = {}

    def cases(self, name: str) -> int:
        """Inputs that a target gets."""
        from fuzz.listing import targets

        return max(1, round(self.asked.cases * targets()[name].share))

    def kept(self, name: str) -> dict[str, object]:
        """How far a target is."""
        file = self.asked.out / f"{name.replace('/', '-')}.json"
        return json.loads(file.read_text()) if file.exists() else {"cases": 0, "wanted": 0, "faults": {}}

    def is_done(self, name: str) -> bool:
        """Whether it had all its inputs."""
        kept = self.kept(name)
        return kept["cases"] >= self.cases(name)  # type: ignore[operator]

    def start(self, name: str) -> None:
        """Begin with a target, or go on."""
        command = [sys.executable, str(Path(__file__).with_name("drive.py")), name]
        command += ["--runs", str(self.cases(name)), "--out", str(self.asked.out)]
        command += ["--engine", self.asked.engine] if self.asked.engine else []
        log = (self.asked.out / f"{name.replace('/', '-')}.log").open("wb")
        self.starts[name] = self.starts.get(name, 0) + 1
        self.running[name] = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def step(self) -> None:
        """Begin with what has room, and note what ended."""
        while self.left and len(self.running) < self.asked.jobs:
            self.start(self.left.pop(0))
        for name, process in list(self.running.items()):
            code = process.poll()
            if code is None:
                continue
            del self.running[name]
            if not self.is_done(name) and self.starts[name] < MOST_STARTS:
                print(f"{name}: died with {code}; goes on", flush=True)
                self.left.insert(0, name)
            else:
                self.say(name, code)

    def say(self, name: str, code: int = 0) -> None:
        """One line of a target."""
        kept = self.kept(name)
        faults = kept["faults"]
        assert isinstance(faults, dict)
        text = ", ".join(f"{fault} ({count:,})" for fault, count in faults.items()) or "no fault"
        died = "" if self.is_done(name) else f"; DIED with {code}"
        seconds, engine = kept.get("seconds", 0), kept.get("engine", "")
        print(f"{name:34} {kept['cases']:>9,} inputs {seconds:>8} s  {engine:10}  {text}{died}", flush=True)

    def stop(self) -> None:
        """End what runs; what it did is kept."""
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait()

    def summary(self) -> list[dict[str, object]]:
        """What became of every target, also as a file."""
        found = [{"target": name} | self.kept(name) | {"died": sorted(self.dead(name))} for name in self.all]
        (self.asked.out / "summary.json").write_text(json.dumps(found, indent=1))
        return found

    def dead(self, name: str) -> list[str]:
        """Inputs that ended a whole process."""
        return [str(one) for one in self.asked.out.glob(f"died-{name.replace('/', '-')}-*")]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000, help="inputs of each target")
    parser.add_argument("--only", default="", help="targets whose names begin so, separated by commas")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="targets at a time")
    parser.add_argument("--engine", choices=("atheris", "hypothesis"))
    parser.add_argument("--out", type=Path, default=Path("out/fuzz"))
    return parser.parse_args()


def main() -> None:
    """Run what is left of all targets."""
    asked = _arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from fuzz.listing import targets

    names = [name for name in targets() if name.startswith(tuple(asked.only.split(",")))]
    asked.out.mkdir(parents=True, exist_ok=True)
    every = Everything(names, asked)
    done = [name for name in names if every.is_done(name)]
    if len(done) == len(names):
        done = []
        for name in names:
            (asked.out / f"{name.replace('/', '-')}.json").unlink(missing_ok=True)
    every.left = [name for name in names if name not in done]
    print(
        f"{len(every.left)} targets, {asked.cases:,} inputs each, {asked.jobs} at a time; done: {len(done)}"
    )
    interrupted = _run(every)
    found = every.summary()
    total, faulty = sum(one["cases"] for one in found), [one for one in found if one["faults"] or one["died"]]  # type: ignore[misc]
    print(f"{total:,} inputs of {len(found)} targets; faults in {len(faulty)}; {asked.out}/summary.json")
    sys.exit(130 if interrupted else bool(faulty))


def _run(every: Everything) -> bool:
    said = time.monotonic()
    try:
        while every.left or every.running:
            every.step()
            if time.monotonic() - said > STATUS_SECONDS:
                said = time.monotonic()
                now = ", ".join(f"{name} {every.kept(name)['cases']:,}" for name in every.running)
                print(f"  … {now}; {len(every.left)} wait", flush=True)
            time.sleep(0.2)
    except KeyboardInterrupt:
        every.stop()
        print("interrupted; the next call goes on")
        return True
    return False


if __name__ == "__main__":
    main()
