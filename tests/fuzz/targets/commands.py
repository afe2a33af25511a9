"""Command lines: what click and the callbacks of options make of them; short commands that run whole."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any

import click
from click.testing import CliRunner

from fuzz.documents import HOSTILE, MARK
from fuzz.questions import USUAL
from fuzz.target import GRAMMAR, Draw, Target, is_whole
from perfcast.cli.main import cli

#: Options that write, start or connect.
LEFT_OUT = frozenset(
    "json html timeline picture output out store address hand_over generate write_spread".split()
)
#: Commands that answer in a moment and write nothing.
SHORT = (
    ("catalog", "devices"),
    ("catalog", "clusters"),
    ("catalog", "models"),
    ("catalog", "predictors"),
    ("catalog", "schemas"),
    ("mesh", "cost"),
    ("mesh", "discover"),
    ("trace", "info"),
    ("data", "summary"),
)


@cache
def _commands() -> dict[tuple[str, ...], click.Command]:
    found: dict[tuple[str, ...], click.Command] = {}

    def walk(command: click.Command, words: tuple[str, ...]) -> None:
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                walk(inner, (*words, name))
        else:
            found[words] = command

    walk(cli, ())
    return found


def _arguments(draw: Draw, command: click.Command) -> list[str]:
    found: list[str] = []
    options = [one for one in command.params if isinstance(one, click.Option) and one.name not in LEFT_OUT]
    for one in command.params:
        if isinstance(one, click.Argument) and not draw.chance(5):
            found += [_value(draw, one) for _ in range(one.nargs if one.nargs > 0 else 1)]
    for option in draw.some(options, 5):
        found.append(draw.choice(option.opts + option.secondary_opts))
        if not option.is_flag:
            found += [_value(draw, option) for _ in range(option.nargs)]
    return found


def _value(draw: Draw, option: click.Parameter) -> str:
    name = (option.name or "").removesuffix("s")
    usual = USUAL.get(option.name or "") or USUAL.get(name)
    if usual and not draw.chance(15):
        return str(draw.choice(usual))
    if isinstance(option.type, click.Choice) and not draw.chance(10):
        return str(draw.choice(list(option.type.choices)))
    if draw.chance(15):
        return str(draw.choice(HOSTILE))
    if draw.chance(50):
        return str(draw.choice((1, 0, -1, 8, 2**31, 10**18, 10**40, 0.5, 1e308, "nan", "inf", "9" * 5000)))
    return "".join(draw.some(GRAMMAR, 6))


def _expand(data: bytes, among: tuple[tuple[str, ...], ...] = ()) -> bytes:
    if is_whole(data):
        return data
    draw = Draw(data.removeprefix(MARK))
    words = draw.choice(among or sorted(_commands()))
    return json.dumps([*words, *_arguments(draw, _commands()[words])]).encode()


def _listed(data: bytes) -> list[str] | None:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    is_line = isinstance(found, list) and all(isinstance(word, str) and "\0" not in word for word in found)
    return found if is_line else None


def _parsed(data: bytes) -> object:
    """Read as far as the verb's own work."""
    words = _listed(data)
    if words is None:
        return None
    for length in (2, 1):
        command = _commands().get(tuple(words[:length]))
        if command is not None:
            with click.Context(cli, info_name="perfcast") as above:
                context = command.make_context(" ".join(words[:length]), words[length:], parent=above)
            context.close()
            return context.params
    return None


def _run(data: bytes) -> object:
    """Run whole; its output has no control characters, whatever was asked."""
    words = _listed(data)
    if words is None or tuple(words[:2]) not in SHORT:
        return None
    if any(word.startswith(("--json", "--html", "--picture", "--j", "--h", "--p", "--o")) for word in words):
        return None
    found = CliRunner().invoke(cli, words, standalone_mode=False, catch_exceptions=True)
    shown = found.output.replace("\n", "").replace("\t", "")
    assert not any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in shown), "a control character"
    if found.exception is not None:
        raise found.exception
    return None


def _seeds(among: tuple[tuple[str, ...], ...], *good: list[str]) -> list[bytes]:
    drawn = random.Random(len(among))
    return [*(json.dumps(one).encode() for one in good), *(MARK + drawn.randbytes(60) for _ in range(30))]


def _short(data: bytes) -> bytes:
    return _expand(data, SHORT)


_LINES: Any = (
    ["predict", "llama3-8b", "--cluster", "dgx-h100:8", "--plan", "tp=2"],
    ["mesh", "profile", "--ranks", "2", "--mesh", "dp=2"],
    ["web", "--port", "8000"],
    ["train", "learned", "--data", "x"],
)
_WHOLE: Any = (["catalog", "devices", "h100-sxm"], ["mesh", "discover", "--synthetic", "8"])

TARGETS = (
    Target(
        name="command/line",
        run=_parsed,
        seeds=lambda: _seeds((), *_LINES),
        expand=_expand,
        usual=40,
        is_drawn=True,
    ),
    Target(
        name="command/whole",
        run=_run,
        seeds=lambda: _seeds(SHORT, *_WHOLE),
        expand=_short,
        is_drawn=True,
        usual=8,
        share=0.05,
        seconds=20.0,
    ),
)
