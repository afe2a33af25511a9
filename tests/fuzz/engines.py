"""Two engines draw inputs for a target: hypothesis, which is everywhere, and atheris, which follows coverage.

Either goes on after a fault and keeps each different one once, as small as it gets quickly.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fuzz.listing import regressions
from fuzz.oracle import Fault, fault_of
from fuzz.target import Target, is_whole

Engine = Literal["atheris", "hypothesis"]
#: Inputs are not longer.
MAX_BYTES = 8192
#: Tries to make an input of a fault smaller.
SHRINK_TRIES = 400
#: Seconds between two writings of how far a run is.
REPORT_SECONDS = 2.0


class Run:
    """What became of the inputs of a target so far; kept as a file, from which another process goes on.

    Attributes:
        cases: Inputs so far.
        wanted: Inputs in all.
        faults: Name of a fault → inputs that showed it.
    """

    def __init__(self, target: Target, folder: Path, wanted: int, engine: Engine) -> None:
        self.target, self.folder, self.wanted, self.engine = target, folder, wanted, engine
        self.file = folder / f"{target.name.replace('/', '-')}.json"
        self.cases, self.seconds, self.faults = 0, 0.0, dict[str, int]()
        self._restore()
        self._began = self._wrote = time.monotonic() - self.seconds

    def _restore(self) -> None:
        if self.file.exists():
            kept = json.loads(self.file.read_text())
            if kept["cases"] < kept["wanted"]:
                self.cases, self.seconds, self.faults = kept["cases"], kept["seconds"], kept["faults"]

    @property
    def is_over(self) -> bool:
        """Whether all inputs are drawn."""
        return self.cases >= self.wanted

    def add(self, data: bytes) -> None:
        """Give the target one input."""
        fault = fault_of(self.target, data)
        self.cases += 1
        if fault is not None:
            self._note(fault, data)
        now = time.monotonic()
        if self.is_over or fault is not None or now - self._wrote > REPORT_SECONDS:
            self._wrote, self.seconds = now, now - self._began
            self.write()

    def _note(self, fault: Fault, data: bytes) -> None:
        self.faults[fault.name] = self.faults.get(fault.name, 0) + 1
        if self.faults[fault.name] == 1:
            place = self.folder / "faults" / self.target.name / fault.name[:150]
            place.parent.mkdir(parents=True, exist_ok=True)
            small = self.target.expand(data)
            if fault.kind not in ("Hang", "Memory"):
                small = shrunk(self.target, small, fault.name)
            place.write_bytes(small)
            place.with_name(place.name + ".txt").write_text(fault.report, errors="backslashreplace")

    def write(self) -> None:
        """Keep how far it is."""
        self.folder.mkdir(parents=True, exist_ok=True)
        names = ("engine", "wanted", "cases", "faults")
        text = json.dumps(
            {"target": self.target.name, "seconds": round(self.seconds, 1)}
            | {n: getattr(self, n) for n in names}
        )
        beside = self.file.with_suffix(".new")
        beside.write_text(text)
        beside.replace(self.file)


def shrunk(target: Target, data: bytes, name: str) -> bytes:
    """A smaller input with the same fault: pieces are left out as long as it stays."""
    size, tries = max(len(data) // 2, 1), 0
    while size and tries < SHRINK_TRIES:
        start = 0
        while start < len(data) and tries < SHRINK_TRIES:
            less, tries = data[:start] + data[start + size :], tries + 1
            fault = fault_of(target, less)
            if fault is not None and fault.name == name:
                data = less
            else:
                start += size
        size //= 2
    return data


# ---- hypothesis ------------------------------------------------------------------------------------


def starts(target: Target) -> tuple[bytes, ...]:
    """Seeds and what was once found, which engines change."""
    known = [*target.seeds(), *(file.read_bytes() for file in regressions(target))]
    return tuple(seed for seed in known if not (target.is_drawn and is_whole(seed)))


def inputs(target: Target) -> st.SearchStrategy[bytes]:
    """Inputs of a target: seeds with pieces cut, doubled, spoilt and put in; and bytes of any kind."""
    seeds = starts(target) or (b"",)
    pieces = st.sampled_from([word.encode() for word in target.words] or [b"\x00"])
    edit = st.tuples(
        st.sampled_from(("put", "cut", "swap", "double", "spoil")),
        st.integers(0, 2**16),
        st.integers(0, 64),
        pieces | st.binary(min_size=1, max_size=8),
    )
    edited = st.builds(_edited, st.sampled_from(seeds), st.lists(edit, min_size=1, max_size=6))
    return st.one_of(
        edited, edited, edited, st.binary(max_size=200), st.lists(pieces, max_size=20).map(b"".join)
    )


def _edited(data: bytes, edits: Sequence[tuple[str, int, int, bytes]]) -> bytes:
    for how, where, length, piece in edits:
        start = where % (len(data) + 1)
        end = min(start + length, len(data))
        middle = {
            "put": piece + data[start:end],
            "cut": b"",
            "swap": piece,
            "double": data[start:end] * 2,
            "spoil": bytes(one ^ piece[0] for one in data[start:end]),
        }[how]
        data = data[:start] + middle + data[end:]
    return data[:MAX_BYTES]


def with_hypothesis(target: Target, number: int, use: Callable[[bytes], None], *, same: bool = False) -> None:
    """Draw inputs and use each.

    Args:
        same: Draw the same ones in every run.
    """

    @settings(
        max_examples=number,
        deadline=None,
        database=None,
        derandomize=same,
        phases=[Phase.generate, *([Phase.shrink] if same else [])],
        suppress_health_check=list(HealthCheck),
    )
    @given(inputs(target))
    def drawn(data: bytes) -> None:
        use(data)

    drawn()


# ---- atheris ---------------------------------------------------------------------------------------


def has_atheris() -> bool:
    """Whether it is installed; it has wheels for some releases of Python alone."""
    try:
        import atheris  # noqa: F401
    except ImportError:
        return False
    return True


def with_atheris(run: Run) -> None:
    """Draw inputs by coverage; the process ends with the last."""
    import atheris

    corpus = run.folder / "corpus" / run.target.name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(starts(run.target)):
        (corpus / f"seed-{number}").write_bytes(seed)
    words = run.folder / "words" / run.target.name.replace("/", "-")
    words.parent.mkdir(parents=True, exist_ok=True)
    pieces = sorted({piece[:64] for piece in run.target.words if piece} | {"\n"})
    words.write_text("\n".join('"' + "".join(f"\\x{b:02x}" for b in p.encode()) + '"' for p in pieces))

    def one(data: bytes) -> None:
        run.add(data)
        if run.is_over:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)

    options = (
        f"-dict={words}",
        f"-max_len={MAX_BYTES}",
        f"-artifact_prefix={run.folder}/died-{run.target.name.replace('/', '-')}-",
        "-rss_limit_mb=6000",
        "-timeout=120",
        "-verbosity=0",
        "-print_final_stats=0",
        "-detect_leaks=0",
        "-reload=0",
    )
    atheris.Setup([sys.argv[0], *options, str(corpus)], one, enable_python_coverage=True)
    atheris.Fuzz()
