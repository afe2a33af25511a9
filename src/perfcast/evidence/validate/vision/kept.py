"""Captured steps, kept on disc: hundreds of models in hundreds of sizes take an hour to capture.

They are kept as those of forecasts are (``workload.kept``), in a folder of their own that may grow larger.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from pathlib import Path

from perfcast.core.captured import CapturedStep, StepSizes
from perfcast.core.graph import Graph
from perfcast.units import GIB
from perfcast.workload.kept.store import Captures, captures_folder
from perfcast.workload.kept.surroundings import surroundings

#: Whose code decides what a graph is, beside what captures it.
_PROGRAMS = Path(__file__).parent / "examples" / "programs"
_MOST_FOLDER_BYTES = 8 * GIB


def kept_graph(asked: str, capture: Callable[[], Graph]) -> Graph:
    """The step as captured, not yet lowered to a device; from the disc, if it was captured before.

    Args:
        asked: All that it depends on beside code.

    Raises:
        InputError: It cannot be captured.
    """
    around = surroundings()
    key = "\n".join((asked, _digest_of_programs(), str(around)))
    captures = _captures_in(captures_folder())
    return captures.step(key, lambda: CapturedStep(capture(), StepSizes()), on_disk=around is not None).graph


@cache
def _captures_in(folder: Path | None) -> Captures:
    return Captures(None if folder is None else folder / "evidence", _MOST_FOLDER_BYTES)


@cache
def _digest_of_programs() -> str:
    code = blake2b(digest_size=20)
    for path in sorted(_PROGRAMS.rglob("*.py")):
        code.update(path.read_bytes())
    return code.hexdigest()
