"""Options of a verb as one frozen, typed object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Any

#: What click decorates: it is called with a keyword for each option.
Command = Callable[..., Any]


def packed(into: type, argument: str, *options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Click options whose values a command takes as one object.

    Args:
        into: A dataclass with a field for each option, by the name of its parameter.
        argument: Under which the command takes the object.
        options: What ``click.option`` and ``click.argument`` make, in the order in which help lists them.
    """
    names = [field.name for field in fields(into)]

    def decorate(function: Command) -> Command:
        @wraps(function)
        def command(**given: object) -> Any:
            values = {name: given.pop(name) for name in names}
            return function(**given, **{argument: into(**values)})

        decorated: Command = command
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate
