"""What is fuzzed: one door of perfcast that takes bytes, text, a file or a structured question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)
class Target:
    """One door.

    Attributes:
        name: As ``drive.py`` takes it, such as 'text/plan'.
        run: What reads an input: bytes, or the path of a file that holds them where ``file_name`` is said.
            It raises what perfcast raises; an ``AssertionError`` where an answer breaks a rule, such as
            that what is printed reads as the same.
        seeds: Inputs to start from, good ones first; made when they are asked for.
        words: Pieces that inputs are made of.
        file_name: Where the input is written; '' hands over the bytes.
        expand: Bytes that engines draw → the input; an input stays as it is.
        is_drawn: Whether engines draw such bytes alone, since nothing is learned from broken inputs.
        seconds: An input that takes longer hangs.
        memory_bytes: An input that takes more memory is one too many.
        share: Of the cases that a long run draws.
        usual: Cases in ``make test``.
    """

    name: str
    run: Callable[[bytes], object] | Callable[[Path], object]
    seeds: Callable[[], Sequence[bytes]]
    words: tuple[str, ...] = ()
    file_name: str = ""
    expand: Callable[[bytes], bytes] = bytes
    is_drawn: bool = False
    seconds: float = 5.0
    memory_bytes: int = 600_000_000
    share: float = 1.0
    usual: int = 15


def text_target(
    name: str,
    parse: Callable[[str], object],
    seeds: Sequence[str],
    *,
    words: Sequence[str] = (),
    show: Callable[..., str] | None = None,
) -> Target:
    """A small grammar.

    Args:
        show: Its printer: what it prints has to read as the same.
    """

    def run(data: bytes) -> object:
        found = parse(data.decode("utf-8", errors="surrogateescape"))
        if show is not None:
            text = show(found)
            again = parse(text)
            assert again == found, f"{found!r} is printed as {text!r}, which reads as {again!r}"
        return found

    return Target(
        name=name, run=run, seeds=lambda: [one.encode() for one in seeds], words=tuple(words) or GRAMMAR
    )


#: What small grammars are made of.
GRAMMAR = (
    *",:;=@*/x.+-_%()[]{}|~ ",
    *"0 1 -1 1e9 1e308 -1e308 inf nan 0.5 9999999999999999999999 ٣ ½ \x00 \n é".split(" "),
    *"K M G T Ki GiB us ms s h d USD".split(),
)


def is_whole(data: bytes) -> bool:
    """Whether bytes are an input as it stands, in JSON, and not what one is drawn off."""
    return data[:1] in (b"{", b"[")


class Draw:
    """Choices, read off bytes; what is missing at their end is 0, which chooses the first."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def byte(self) -> int:
        """0 to 255."""
        self.place += 1
        return self.data[self.place - 1] if self.place <= len(self.data) else 0

    def below(self, end: int) -> int:
        """0 to ``end`` − 1."""
        found, room = 0, 1
        while room < end:
            found, room = found * 256 + self.byte(), room * 256
        return found % end

    def chance(self, percent: int) -> bool:
        """Whether; False where bytes have ended."""
        return self.byte() > 255 - percent * 2.55

    def choice(self, among: Sequence[Item]) -> Item:
        """One of several."""
        return among[self.below(len(among))]

    def some(self, among: Sequence[Item], most: int) -> list[Item]:
        """Up to ``most`` of several."""
        return [self.choice(among) for _ in range(self.below(most + 1))] if among else []

    def taken(self, most: int) -> bytes:
        """Bytes as they are."""
        length = min(self.byte(), most)
        self.place += length
        return self.data[self.place - length : self.place]

    def rest(self) -> bytes:
        """What was not read."""
        return self.data[self.place :]

    @property
    def is_over(self) -> bool:
        """Whether all bytes are read."""
        return self.place >= len(self.data)
