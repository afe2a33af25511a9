"""Texts of options as values, as callbacks of click's options."""

from __future__ import annotations

import click

from perfcast.verbs.shared.values import parse_counts, read_amount


def counts(_: click.Context, option: click.Parameter, text: str | None) -> tuple[int, ...]:
    """``parse_counts`` of an option."""
    return parse_counts(option.opts[0], text)


def amount(_: click.Context, option: click.Parameter, text: str | None) -> float | None:
    """``read_amount`` of an option."""
    return None if text is None else read_amount(option.opts[0], text)
