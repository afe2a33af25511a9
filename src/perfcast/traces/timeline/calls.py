"""Calls of CUDA's and HIP's runtime by what they do to the host: launch, wait, order streams, or pass."""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache


class CallKind(Enum):
    """What a call means for the timeline."""

    LAUNCH = "launch"  # issues a kernel, a copy or a fill
    WAIT_STREAM = "wait for a stream"
    WAIT_EVENT = "wait for an event"
    WAIT_DEVICE = "wait for the device"
    ORDER = "let a stream wait for an event"
    RECORD = "record an event"
    OTHER = "other"

    __hash__ = object.__hash__


#: Of these the host may stay in the call until what it waits for has ended.
WAITS = frozenset({CallKind.WAIT_STREAM, CallKind.WAIT_EVENT, CallKind.WAIT_DEVICE})

_RULES = (
    (re.compile(r"(StreamSynchronize)"), CallKind.WAIT_STREAM),
    (re.compile(r"(EventSynchronize)"), CallKind.WAIT_EVENT),
    (re.compile(r"(DeviceSynchronize|CtxSynchronize)"), CallKind.WAIT_DEVICE),
    (re.compile(r"StreamWaitEvent"), CallKind.ORDER),
    (re.compile(r"EventRecord"), CallKind.RECORD),
    (re.compile(r"Launch|Memcpy|Memset|hipModuleLaunch"), CallKind.LAUNCH),
)


@lru_cache(maxsize=4096)
def call_kind(name: str) -> CallKind:
    """Kind of a call by its name (``cudaLaunchKernel``, ``hipMemcpyAsync``, ``cuLaunchKernelEx``, …)."""
    return next((kind for pattern, kind in _RULES if pattern.search(name)), CallKind.OTHER)


def is_operator(name: str) -> bool:
    """Whether an operator event is an operator; others only mark a range.

    Operators carry their namespace (``aten::mm``, ``autograd::engine::…``, ``c10d::…``); marked ranges of
    older recordings stand among the operators without one (``## forward ##``, ``Optimizer.step#SGD``).
    """
    return "::" in name and not name.startswith(("##", "module::", "nn.Module", "__"))
