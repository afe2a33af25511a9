"""A golden answer: a command line, what is kept of its ``--json -``, and how two of them are compared.

Commands name the files of ``inputs`` with ``@`` before them. They run in this process, through the same door
as a person's: what the package is like inside may change, answers may not.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from perfcast.cli.main import run

#: Calibrations and sweeps of whoever runs this are no part of an answer.
DATA_DIR_VARIABLE = "PERFCAST_DATA_DIR"
ANSWERS = Path(__file__).with_name("answers")

#: Relative. Vectorised logarithms and sums round differently from processor to processor.
TOLERANCE = 1e-9
#: Absolute, of differences of nearly equal figures: a millionth of a nanosecond.
RESIDUE = 1e-15


@dataclass(frozen=True)
class Case:
    """A command, and what of its JSON is kept."""

    command: str
    read: Callable[[Any], dict[str, Any]]

    def answer(self, folder: Path) -> dict[str, Any]:
        """As it is kept; ``folder`` holds the inputs."""
        return {"command": self.command, "answer": self.read(ask(self.command, folder))}


def ask(command: str, folder: Path) -> Any:
    """What a command writes as JSON, with ``folder`` (of the inputs) taken out of its texts.

    Raises:
        AssertionError: The command failed; with what it said.
    """
    arguments = [word.replace("@", f"{folder}/") for word in shlex.split(command)]
    out, said = io.StringIO(), io.StringIO()
    own_data = patch.dict(os.environ, {DATA_DIR_VARIABLE: str(folder / "data")})
    with own_data, contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
        code = run(arguments)
    assert code == 0, f"perfcast {command}: {said.getvalue().strip()}"
    return json.loads(out.getvalue().replace(f"{folder}/", "@"))


def load(subject: str) -> dict[str, Any]:
    """All kept answers of a subject, by name."""
    path = ANSWERS / f"{subject}.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def differences(kept: Any, found: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    ""
    """Where two answers differ by more than rounding: path, kept, found; None where one has nothing."""
    if isinstance(kept, Mapping) and isinstance(found, Mapping):
        for key in (*kept, *(key for key in found if key not in kept)):
            yield from differences(kept.get(key), found.get(key), f"{path}: {key}" if path else key)
    elif isinstance(kept, list) and isinstance(found, list) and len(kept) == len(found):
        for place, (one, other) in enumerate(zip(kept, found, strict=True)):
            yield from differences(one, other, f"{path}[{place}]")
    elif not is_same(kept, found):
        yield path, kept, found


def is_same(kept: Any, found: Any) -> bool:
    """Whether two figures or words are the same but for rounding; whole numbers are exact."""
    if isinstance(kept, float) and isinstance(found, int | float) and not isinstance(found, bool):
        return math.isclose(kept, found, rel_tol=TOLERANCE, abs_tol=RESIDUE)
    return bool(kept == found)
