"""Help and options of a command, read off the command itself."""

from __future__ import annotations

from enum import Enum

import click

from perfcast.cli.main import cli


def describe_command(words: str) -> str:
    """Markdown of the command of these words (``mesh cost``): usage, help, its options as a table."""
    command, context = find_command(words.split())
    parts = ["```text", command.get_usage(context).removeprefix("Usage: "), "```", *_help(command)]
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            parts.append(f"- `{words} {name}`: {inner.get_short_help_str(200)}")
    options = [
        item for item in command.get_params(context) if isinstance(item, click.Option) and not item.hidden
    ]
    if len(options) > 1:
        parts += ["", "| Option | Takes | By default | |", "|---|---|---|---|"]
        parts += [_row(option, context) for option in options if option.name != "help"]
    return "\n".join(parts)


def find_command(words: list[str]) -> tuple[click.Command, click.Context]:
    """The command of these words and the context of its help."""
    command: click.Command = cli
    context = click.Context(cli, info_name="perfcast")
    for word in words:
        assert isinstance(command, click.Group)
        inner = command.get_command(context, word)
        if inner is None:
            raise KeyError(f"no command 'perfcast {' '.join(words)}'")
        command, context = inner, click.Context(inner, info_name=word, parent=context)
    return command, context


def leaf_commands(words: tuple[str, ...] = ()) -> list[str]:
    """Every command that is not a group, by its words."""
    command, context = find_command(list(words))
    if not isinstance(command, click.Group):
        return [" ".join(words)]
    return [leaf for name in command.list_commands(context) for leaf in leaf_commands((*words, name))]


def _help(command: click.Command) -> list[str]:
    text = (command.help or "").replace("\b\n", "").strip()
    return ["", *(line.strip() for line in text.splitlines()), ""]


def _row(option: click.Option, context: click.Context) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    default = option.get_default(context, call=False)
    said = (
        default is not None
        and default not in (False, (), "")
        and not isinstance(default, Enum)
        and not callable(default)
    )
    shown = f"`{default}`" if said else ""
    return f"| {names} | {_takes(option, context)} | {shown} | {_cell(option.help or '')} |"


def _takes(option: click.Option, context: click.Context) -> str:
    if option.is_flag:
        return ""
    if isinstance(option.type, click.Choice):
        return ", ".join(f"`{choice}`" for choice in option.type.choices)
    return f"`{option.make_metavar(context)}`".replace("|", "/")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
