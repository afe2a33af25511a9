"""Which kernels are collectives between ranks, by their names, and which collective a name says."""

from __future__ import annotations

import re
from functools import lru_cache

from perfcast.traces.marks import GLOO

#: NCCL, RCCL, MSCCL, oneCCL and HCCL; the kernels of engines and of symmetric memory that replace them.
_COMMUNICATION = re.compile(
    r"^gloo:|oneshot|one_shot|two_?shot|symm_mem|^hcom_|cross_device_reduce|multimem_|nvshmem|deep_ep::"
    r"|(?:nccl|rccl|msccl|oneccl|hccl).*(?:kernel|allreduce|allgather)",
    re.IGNORECASE,
)
#: What a kernel says it does, in the words that recordings have for it; the first that fits.
_WORDS = (
    (re.compile(r"all_?to_?all", re.IGNORECASE), "all_to_all"),
    (re.compile(r"reduce_?scatter", re.IGNORECASE), "reduce_scatter"),
    (re.compile(r"all_?gather", re.IGNORECASE), "all_gather"),
    (re.compile(r"all_?reduce|cross_device_reduce|one_?shot|two_?shot", re.IGNORECASE), "all_reduce"),
    (re.compile(r"broad_?cast", re.IGNORECASE), "broadcast"),
    (re.compile(r"send_?recv", re.IGNORECASE), "send_recv"),
    (re.compile(r"(?:nccl|rccl|hcom).*recei?v", re.IGNORECASE), "recv"),
    (re.compile(r"(?:nccl|rccl|hcom).*send", re.IGNORECASE), "send"),
    (re.compile(r"(?:nccl|rccl|hcom).*reduce", re.IGNORECASE), "reduce"),
)


@lru_cache(maxsize=65536)
def is_communication(name: str) -> bool:
    """Whether a kernel is part of a collective between ranks, by its name."""
    return bool(_COMMUNICATION.search(name))


@lru_cache(maxsize=65536)
def word_of_kernel(name: str) -> str:
    """What a kernel exchanges, by its name; '' where that does not say it (``ncclDevKernel_Generic``).

    ``send_recv`` is what NCCL runs for messages and for all-to-alls, which it makes of them.
    """
    return next((word for pattern, word in _WORDS if pattern.search(name)), "")


def is_gloo(name: str) -> bool:
    """Whether a work is what a thread of gloo's carried out: it ends on each rank in its own time."""
    return name.startswith(GLOO)
