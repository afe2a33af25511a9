"""Options that name what is written, and the check that none of it is read, or written twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import click

from perfcast.files.places import STANDARD_OUTPUT, check_places, is_standard_output
from perfcast.files.run import watched_run


class OutputPlace(click.types.StringParamType):
    """A place that a command writes to; every option and argument of that kind has this type.

    Args:
        takes_stream: Whether '-' is standard output.
        is_folder: Whether files are written into it.
        is_picture: Whether :FIGURE may follow.
    """

    def __init__(
        self, *, takes_stream: bool = False, is_folder: bool = False, is_picture: bool = False
    ) -> None:
        self._takes_stream, self.is_folder, self._is_picture = takes_stream, is_folder, is_picture

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The path; '-' where standard output is named in another way.

        Raises:
            BadParameter: Standard output, which the option does not take; nothing at all.
        """
        text: str = super().convert(value, param, ctx)
        if not text:
            self.fail("it names nothing; leave it out, or name a file", param, ctx)
        if not is_standard_output(self.path(text)):
            return text
        if not self._takes_stream:
            self.fail(f"'{text}' is standard output, which it cannot be written to; name a file", param, ctx)
        return STANDARD_OUTPUT

    def path(self, text: str) -> str:
        """What is written, of what was said."""
        if not self._is_picture:
            return text
        from perfcast.report.pictures import parse_picture

        return parse_picture(text).path


#: A file; a document that standard output takes too; a picture; a folder.
OUTPUT_FILE = OutputPlace()
OUTPUT_DOCUMENT = OutputPlace(takes_stream=True)
OUTPUT_PICTURE = OutputPlace(is_picture=True)
OUTPUT_FOLDER = OutputPlace(is_folder=True)


def guard_places(command: click.Command) -> None:
    """Let a command, and those below it, begin with the check of its places, and note what it reads."""
    if isinstance(command, click.Group):
        for one in command.commands.values():
            guard_places(one)
    callback = command.callback
    if callback is None or isinstance(command, click.Group) or hasattr(callback, "is_guarded"):
        return

    @wraps(callback)
    def guarded(*arguments: Any, **given: Any) -> Any:
        _check(click.get_current_context())
        with watched_run():
            return callback(*arguments, **given)

    guarded.is_guarded = True  # type: ignore[attr-defined]
    command.callback = guarded


def _check(context: click.Context) -> None:
    """Raises InputError where an output is an input, or two outputs are one place."""
    outputs, inputs = [], list[str]()
    for parameter in context.command.params:
        kind, value = parameter.type, context.params.get(str(parameter.name))
        if isinstance(kind, OutputPlace):
            if isinstance(value, str) and (not kind.is_folder or Path(value).is_file()):
                outputs.append((_called(parameter), kind.path(value)))
        else:
            inputs.extend(_texts(value))
    takes_text = all(path != STANDARD_OUTPUT for _, path in outputs)
    check_places(outputs, inputs if outputs else (), is_text_shown=takes_text)


def _called(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Option):
        return parameter.opts[0]
    return parameter.make_metavar(click.get_current_context())


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Iterable):
        for one in value:
            yield from _texts(one)
