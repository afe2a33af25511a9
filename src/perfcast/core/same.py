"""A large frozen thing as the key of a cache, by what it is and not by what it holds."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Same(Generic[T]):
    """Equal to another of the very same object. A cache that holds one keeps the object from being replaced.

    >>> row = (1, 2)
    >>> Same(row) == Same(row), Same(row) == Same(tuple([1, 2]))
    (True, False)
    """

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)
