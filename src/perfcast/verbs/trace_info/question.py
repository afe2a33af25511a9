"""What ``perfcast trace info`` is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from perfcast.verbs.question import PLACE, Question, usually


@dataclass(frozen=True, kw_only=True)
class TraceInfoQuestion(Question):
    """What trace files are: format, device, ranks, steps, operators, kernels, collectives.

    Attributes:
        paths: Timelines or execution traces of PyTorch's profiler: JSON, gzip, or tar of either.
        max_bytes: Unpacked bytes of one file beyond which reading is given up.
    """

    verb: ClassVar[str] = "trace info"
    arguments: ClassVar[tuple[str, ...]] = ("paths",)

    paths: tuple[str, ...] | str = field(metadata=PLACE, kw_only=False)
    max_bytes: str | None = field(default=None, metadata=usually("2GiB"))
