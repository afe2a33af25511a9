"""How long prompts and answers are: one number, or a distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from perfcast.core.words import known_word
from perfcast.errors import InputError
from perfcast.ranges import ANY_NUMBER, read_number
from perfcast.units import GIGA

_EXCERPT = 60

LengthShape = Literal["fixed", "uniform", "normal", "lognormal"]
LENGTH_SHAPES: tuple[LengthShape, ...] = get_args(LengthShape)


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens of prompts, or of answers.

    Attributes:
        shape: Of the distribution.
        mean_tokens: Of all.
        spread: 'uniform': half the width over the mean, below 1 ('a benchmark's 80 to 100 % of the length'
            is 0.9 of it ± 0.111); 'normal' and 'lognormal': standard deviation over the mean; 'fixed': 0.
    """

    mean_tokens: float
    shape: LengthShape = "fixed"
    spread: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.mean_tokens < GIGA:
            raise InputError(f"{self.mean_tokens:g} tokens: a length lies between 1 and a billion")
        if (self.spread > 0) != (self.shape != "fixed") or not 0 <= self.spread < 10:
            raise InputError(f"{self.shape} lengths with a spread of {self.spread:g}")
        if self.shape == "uniform" and self.spread >= 1:
            raise InputError("uniform lengths have a spread below 1")

    @property
    def text(self) -> str:
        """As ``parse_lengths`` reads it."""
        mean = f"{self.mean_tokens:g}" if self.mean_tokens % 1 else str(int(self.mean_tokens))
        return mean if self.shape == "fixed" else f"{self.shape}:{mean}:{self.spread:g}"


def parse_lengths(text: str, option: str = "lengths") -> Lengths:
    """``8192``, or a shape with mean and spread, ``uniform:1024:0.2``.

    >>> parse_lengths("lognormal:1024:0.5").spread
    0.5

    Raises:
        InputError: Something else, or numbers that no lengths have; names the option.
    """
    parts = text.split(":")
    try:
        if len(parts) == 1:
            parts = ["fixed", text, "0"]
        name, mean, spread = parts
        numbers = tuple(read_number("", each, ANY_NUMBER) for each in (mean, spread))
    except (ValueError, InputError):
        shapes = ", ".join(shape for shape in LENGTH_SHAPES if shape != "fixed")
        raise InputError(
            f"{option} {text[:_EXCERPT]}: tokens, such as 8192, or SHAPE:MEAN:SPREAD, such as "
            f"uniform:1024:0.2; shapes: {shapes}"
        ) from None
    return Lengths(numbers[0], known_word("shape of lengths", name, LENGTH_SHAPES), numbers[1])
