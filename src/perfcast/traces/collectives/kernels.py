"""Which kernels are collectives between ranks, by their names."""

from __future__ import annotations

import re
from functools import lru_cache

_COMMUNICATION = re.compile(
    r"^gloo:|oneshot|one_shot|symm_mem|(?:nccl|rccl|msccl|oneccl|hccl).*(?:kernel|allreduce|allgather)",
    re.IGNORECASE,
)


@lru_cache(maxsize=65536)
def is_communication(name: str) -> bool:
    """Whether a kernel is part of a collective between ranks, by its name."""
    return bool(_COMMUNICATION.search(name))
