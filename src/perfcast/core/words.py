"""Words of closed sets: a text that a user wrote becomes one of them, or an error that lists them."""

from __future__ import annotations

from typing import TypeVar

from perfcast.errors import UnknownNameError

Word = TypeVar("Word", bound=str)


def known_word(kind: str, text: str, known: tuple[Word, ...]) -> Word:
    """The word of a set that a text is.

    >>> known_word("recompute", "full", ("none", "full"))
    'full'

    Raises:
        UnknownNameError: It is none of them; the message lists close ones and all.
    """
    for word in known:
        if word == text:
            return word
    raise UnknownNameError(kind, text, known, f"Known: {', '.join(known)}.")
