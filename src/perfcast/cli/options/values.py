"""Texts of options as values, as callbacks of click's options."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from perfcast.core.words import Word, known_word
from perfcast.errors import QuestionError
from perfcast.verbs.shared.values import check_fraction, parse_counts, parse_time, read_amount, split_names


def names(_: click.Context, option: click.Parameter, texts: Sequence[str]) -> tuple[str, ...]:
    """``split_names`` of an option that may be repeated."""
    try:
        return split_names(option.opts[0], texts)
    except QuestionError as error:
        raise click.UsageError(str(error)) from None


def counts(_: click.Context, option: click.Parameter, text: str | None) -> tuple[int, ...]:
    """``parse_counts`` of an option."""
    return parse_counts(option.opts[0], text)


def seconds(_: click.Context, option: click.Parameter, text: str | None) -> float | None:
    """``parse_time`` of an option."""
    return parse_time(option.opts[0], text)


def amount(_: click.Context, option: click.Parameter, text: str | None) -> float | None:
    """``read_amount`` of an option."""
    return None if text is None else read_amount(option.opts[0], text)


def fraction(_: click.Context, option: click.Parameter, value: float | None) -> float | None:
    """``check_fraction`` of an option."""
    return check_fraction(option.opts[0], value)


def word_of(
    kind: str, known: tuple[Word, ...]
) -> Callable[[click.Context, click.Parameter, str | None], Word | None]:
    """The word of a closed set that an option's text is; nothing stays nothing."""

    def read(_: click.Context, __: click.Parameter, text: str | None) -> Word | None:
        return None if text is None else known_word(kind, text, known)

    return read
