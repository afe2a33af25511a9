"""Which line of a program's code is running, and which line a backward belongs to.

The line is that of the innermost frame outside PyTorch and outside what records: the user's file, or the
file of a model library. A backward runs no such frame; autograd numbers its nodes in the order in which
the forward makes them, so the number of a node says which operator of the forward it belongs to.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from enum import Enum, auto
from pathlib import Path
from types import CodeType

import torch

_HERE = str(Path(__file__).parents[1])
_TORCH = str(Path(torch.__file__).parent)
#: Files of this room that stand between a program and its recorder, and those that call the program.
_BETWEEN = tuple(
    f"{_HERE}/{name}.py"
    for name in (
        "capture/recorder",
        "capture/code_line",
        "capture/composite",
        "capture/autocast",
        "models/balanced_experts",
        "models/transformers_context",
        "parallel_program/distributed_calls",
        "parallel_program/messages",
        "parallel_program/replicas",
        "parallel_program/streams",
    )
)
_CALLERS = tuple(
    f"{_HERE}/{name}.py" for name in ("step", "capture/capture", "parallel_program/virtual_ranks")
)


class _Role(Enum):
    """What a frame is to the program: its own code, something that it calls, or what calls it."""

    PROGRAM = auto()
    CALLED = auto()
    CALLER = auto()


class CodeLines:
    """Names lines as ``'modeling_llama.py:253 in LlamaAttention.forward'``; '' where there is none."""

    def __init__(self) -> None:
        self._roles: dict[CodeType, _Role] = {}
        self._names: dict[tuple[CodeType, int], str] = {}
        # An autograd node numbered below ends[i], and not below ends[i - 1], belongs to lines[i].
        self._ends: list[int] = []
        self._lines: list[str] = []

    def running(self) -> str:
        """The program's line that runs now."""
        frame = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            role = self._roles.get(code)
            if role is None:
                role = self._roles[code] = _role_of(code)
            if role is _Role.PROGRAM:
                key = code, frame.f_lasti
                name = self._names.get(key)
                if name is None:
                    name = self._names[key] = _name(code, frame.f_lineno)
                return name
            if role is _Role.CALLER:
                return ""
            frame = frame.f_back  # type: ignore[assignment]
        return ""

    def mark(self, next_sequence: int, line: str) -> None:
        """Autograd nodes made since the last mark belong to ``line``; the next will be ``next_sequence``."""
        if not self._ends or next_sequence > self._ends[-1]:
            self._ends.append(next_sequence)
            self._lines.append(line)

    def of_backward(self, sequence: int) -> str:
        """The line of the forward that made the autograd node with this number."""
        index = bisect_right(self._ends, sequence)
        return self._lines[index] if index < len(self._lines) else ""


def _role_of(code: CodeType) -> _Role:
    if code.co_filename in _CALLERS:
        return _Role.CALLER
    if code.co_filename.startswith((_TORCH, "<")) or code.co_filename in _BETWEEN:
        return _Role.CALLED
    return _Role.PROGRAM


def _name(code: CodeType, line: int) -> str:
    function = code.co_qualname.rpartition("<locals>.")[2]
    return f"{Path(code.co_filename).name}:{line} in {function}"
