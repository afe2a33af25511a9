"""What answers the question of ``perfcast trace info``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfcast.files.limits import parse_size
from perfcast.verbs.question import each
from perfcast.verbs.result import shown
from perfcast.verbs.trace_info.question import TraceInfoQuestion
from perfcast.verbs.trace_info.result import TraceFiles, TraceInfoResult

if TYPE_CHECKING:
    from perfcast.verbs.answer import OnProgress


def answer(asked: TraceInfoQuestion, *, on_progress: OnProgress | None = None) -> TraceInfoResult:
    """What the files hold.

    Raises:
        TraceError: One of them cannot be read.
    """
    from perfcast.traces.summary import summarize

    if on_progress is not None:
        on_progress(None, "reading")
    found = summarize(each(asked.paths), parse_size("--max-bytes", asked.text("max_bytes")))
    return shown(TraceInfoResult, TraceFiles(files=found), asked)
