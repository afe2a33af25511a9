"""What ``perfcast trace explain`` is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from perfcast.verbs.question import PLACE, Question, usually


@dataclass(frozen=True, kw_only=True)
class ExplainQuestion(Question):
    """Where the time of recorded steps went.

    Attributes:
        traces: Recordings of PyTorch's profiler (JSON, gzip, tar), one for each rank, or an archive of all.
        compare: Another run: what changed since.
        allow_truncated: Read what is whole of a file that ends early.
        max_bytes: Unpacked bytes of one file beyond which reading is given up.
    """

    verb: ClassVar[str] = "trace explain"
    arguments: ClassVar[tuple[str, ...]] = ("traces",)

    traces: tuple[str, ...] = field(metadata=PLACE, kw_only=False)
    compare: tuple[str, ...] = field(default=(), metadata=PLACE)
    allow_truncated: bool = False
    max_bytes: str | None = field(default=None, metadata=usually("2GiB"))
