"""``perfcast memory``: the peak of one step, what it consists of, and whether it fits."""

from perfcast.verbs.memory.question import MemoryQuestion
from perfcast.verbs.memory.request import request_of

__all__ = ["MemoryQuestion", "request_of"]
