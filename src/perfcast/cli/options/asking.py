"""Options of a verb, given to its command as the verb's question."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from perfcast.cli.options.pack import Command
from perfcast.errors import InputError, QuestionError
from perfcast.verbs.question import Question, check_question, option_of, plain_fields
from perfcast.verbs.schema import described


def asking(kind: type[Question], *options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Click options whose values a command takes as one question, under 'asked'.

    What was not written down is not said. What an option's help says stands in the question's docstring.

    Args:
        kind: A question with a field for each option, by the name of its parameter.
        options: What ``click.option`` and ``click.argument`` make, in the order in which help lists them.
    """
    names = [one.name for one in plain_fields(kind)]

    def decorate(function: Command) -> Command:
        @wraps(function)
        def command(**given: object) -> Any:
            context = click.get_current_context()
            values = {name: given.pop(name) for name in names}
            said = {name: value for name, value in values.items() if _is_written(context, name)}
            try:
                asked = make_question(kind, **said)
            except QuestionError as error:
                raise click.UsageError(str(error), context) from error
            try:
                check_question(asked, lambda name: _spelled(context, name))
            except QuestionError as error:  # a value that none can mean: one line, no usage
                raise InputError(str(error)) from error
            try:
                return function(**given, asked=asked)
            except QuestionError as error:
                raise click.UsageError(str(error), context) from error

        decorated: Command = command
        for option in reversed(options):
            decorated = option(decorated)
        _fill_help(decorated, kind)
        return decorated

    return decorate


def make_question(kind: type[Question], **said: Any) -> Question:
    """The question that options say."""
    return kind(**said)


def _spelled(context: click.Context, name: str) -> str:
    """A field as it was written: an option, or an argument in capitals."""
    of_name = (one for one in context.command.params if one.name == name)
    parameter = next(of_name, None)
    return parameter.human_readable_name if isinstance(parameter, click.Argument) else option_of(name)


def _is_written(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT


def _fill_help(command: Command, kind: type[Question]) -> None:
    texts = described(kind)
    for parameter in getattr(command, "__click_params__", ()):
        if isinstance(parameter, click.Option) and parameter.help is None:
            parameter.help = texts.get(str(parameter.name))
