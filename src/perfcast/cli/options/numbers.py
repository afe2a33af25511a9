"""Numbers and texts of options, read by the one door of ``perfcast.ranges``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from perfcast.ranges import ANY_NUMBER, Range, check_path, check_text, read_number, read_whole

#: Metavars of options, and kinds of arguments, that name a file or a folder.
_OF_FILES = ("FILE", "DIR", "TRACE", "PATH", "OTHER")


class Whole(click.ParamType[int]):
    """A whole number of a range.

    Args:
        allowed: Any number where the verb's question judges it.
    """

    name = "integer"

    def __init__(self, allowed: Range = ANY_NUMBER) -> None:
        self.allowed = allowed

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number.

        Raises:
            InputError: None, or outside of the range; says it.
        """
        return int(_read(read_whole, self.allowed, value, param))


class Number(click.ParamType[float]):
    """A finite number of a range.

    Args:
        allowed: Any number where the verb's question judges it.
    """

    name = "float"

    def __init__(self, allowed: Range = ANY_NUMBER) -> None:
        self.allowed = allowed

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number.

        Raises:
            InputError: None, or outside of the range; says it.
        """
        return float(_read(read_number, self.allowed, value, param))


def _read(
    read: Callable[[str, str, Range], float], allowed: Range, value: Any, param: click.Parameter | None
) -> float:
    what = _called(param)
    if isinstance(value, str):
        return read(what, value, allowed)
    allowed.check(what, value)
    return float(value)


def _called(parameter: click.Parameter | None) -> str:
    """A parameter as messages begin."""
    if isinstance(parameter, click.Option):
        return max(parameter.opts, key=len)
    return "" if parameter is None else parameter.human_readable_name


def guard(command: click.Command) -> None:
    """Let every number and text of a command go through the one door.

    Whole numbers and numbers of any kind are read by it, and empty texts are refused, wherever they stand.
    """
    if isinstance(command, click.Group):
        for one in command.commands.values():
            guard(one)
    for parameter in command.params:
        if type(parameter.type) is click.types.IntParamType:
            parameter.type = Whole()
        elif type(parameter.type) is click.types.FloatParamType:
            parameter.type = Number()
        elif isinstance(parameter.type, click.types.StringParamType):
            parameter.callback = _checking(parameter.callback)


def _checking(after: Callable[..., Any] | None) -> Callable[..., Any]:
    """What looks at a parameter's texts before its own callback does."""

    def check(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        source = context.get_parameter_source(str(parameter.name))
        if source is not click.core.ParameterSource.DEFAULT:
            for text in value if isinstance(value, tuple) else (value,):
                if isinstance(text, str):
                    _check(parameter, text)
        return value if after is None else after(context, parameter, value)

    check.is_door = True  # type: ignore[attr-defined]
    return check if after is None or not getattr(after, "is_door", False) else after


def _check(parameter: click.Parameter, text: str) -> None:
    what = _called(parameter)
    check_text(what, text)
    if (parameter.metavar or "").partition(".")[0] in _OF_FILES:
        check_path(what, text)
