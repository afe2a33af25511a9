"""Hostile numbers and texts, in every option of every verb: one short line, at once, and no traceback."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from unittest.mock import patch

import click
import pytest

import perfcast.cli.options.asking as asking
from perfcast.cli.main import cli, run
from perfcast.cli.options.numbers import Number, Whole
from perfcast.errors import InputError, QuestionError
from perfcast.ranges import excerpt
from perfcast.verbs.question import VERBS, check_question, field_kinds, question_class, question_of

#: What no option of numbers takes.
NEVER = ("nan", "inf", "-inf", "1e400", "", " ", "٣", "9" * 10_000, "-" + "9" * 5_000, "0x10", "1e9999999")
#: What some take.
SOMETIMES = ("0", "-1", "1000000000", "1000000000000000000", "0.5", "-0", "1e-320", "00000000000000000001")
SECONDS_OF_ONE, LONGEST_LINE = 1.0, 500


class ReachedError(Exception):
    """The question was asked; what answers it is not run here."""


def commands(command: click.Command = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if not isinstance(command, click.Group):
        yield path
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from commands(found, (*path, name))


def command_at(path: tuple[str, ...]) -> click.Command:
    found: click.Command = cli
    for name in path:
        assert isinstance(found, click.Group)
        below = found.get_command(click.Context(found), name)
        assert below is not None
        found = below
    return found


def needed(command: click.Command, but: click.Parameter) -> list[str]:
    """What has to be said beside an option."""
    said: list[str] = []
    for one in command.params:
        if one is but or not one.required:
            continue
        said += ["gpt2"] if isinstance(one, click.Argument) else [one.opts[0], "gpt2"]
    return said


def refusal(command: click.Command, arguments: list[str]) -> str | None:
    """The message by which a command line is refused; None where it is taken."""

    def reach(question: object, *spell: object) -> object:
        check_question(question, *spell)  # type: ignore[arg-type]
        raise ReachedError

    begin = time.perf_counter()
    try:
        with patch.object(asking, "check_question", reach):
            context = command.make_context("perfcast", arguments)
            if any(one.name in ("asked",) for one in command.params) or _asks(command):
                command.invoke(context)
    except ReachedError:
        return None
    except (InputError, click.UsageError) as error:
        assert time.perf_counter() - begin < SECONDS_OF_ONE
        return str(error)
    return None


def _asks(command: click.Command) -> bool:
    """Whether its callback takes its options as a question."""
    callback = command.callback
    while callback is not None:
        if "asking" in getattr(getattr(callback, "__code__", None), "co_filename", ""):
            return True
        callback = getattr(callback, "__wrapped__", None)
    return False


def takes_number(option: click.Parameter) -> bool:
    return isinstance(option.type, Whole | Number)


@pytest.mark.parametrize("path", list(commands()), ids=" ".join)
def test_a_hostile_number_is_refused_in_one_short_line(path: tuple[str, ...]):
    command = command_at(path)
    for option in command.params:
        if not takes_number(option):
            continue
        for value in (*NEVER, *SOMETIMES):
            said = refusal(command, [*needed(command, option), f"{option.opts[0]}={value}"])
            assert said is not None or value in SOMETIMES, f"{option.opts[0]}={value[:20]} was taken"
            if said is not None:
                assert "\n" not in said
                assert len(said) < LONGEST_LINE
                assert option.opts[0].lstrip("-") in said or max(option.opts, key=len) in said, said


@pytest.mark.parametrize("path", list(commands()), ids=" ".join)
def test_an_empty_text_is_an_error_in_every_option(path: tuple[str, ...]):
    command = command_at(path)
    for option in command.params:
        if isinstance(option, click.Option) and not option.is_flag and option.name != "help":
            said = refusal(command, [*needed(command, option), f"{option.opts[0]}="])
            assert said is not None, f"{option.opts[0]}= was taken"


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "value", [10**5000, -(10**5000), math.nan, math.inf, -math.inf, -1, 10**18], ids=excerpt
)
def test_hostile_numbers_from_python_and_json_are_refused_by_name(verb: str, value: float):
    kind = question_class(verb)
    filled = {name: "gpt2" for name, taken in field_kinds(kind).items() if _is_needed(verb, name)}
    for name, taken in field_kinds(kind).items():
        if taken.scalar not in (int, float):
            continue
        assert taken.bounds is not None
        if taken.bounds.holds(value):
            continue
        with pytest.raises(QuestionError, match=name) as refused:
            question_of(verb, {**filled, name: value})
        assert len(str(refused.value)) < LONGEST_LINE


def _is_needed(verb: str, name: str) -> bool:
    from dataclasses import MISSING

    field = question_class(verb).__dataclass_fields__[name]
    return field.default is MISSING and field.default_factory is MISSING


MESH = ("mesh", "cost", "--cluster", "dgx-h100:64", "--collective", "all_reduce", "--bytes", "1GB")
LARGE = ("mesh", "cost", "--collective", "all_to_all", "--bytes", "1GB", "--cluster")
PREDICT = ("predict", "gpt2", "--cluster", "dgx-h100:8")
NINETY = ",".join(str(9_000_000 + n) for n in range(90))
COUNTS = ",".join(map(str, range(1, 101)))
HUNDREDS = ("--batch-sizes", COUNTS, "--contexts", COUNTS)
SERVING = ("serving", "gpt2", "--device", "h100-sxm", "--concurrency", "4", "--input-length", "8")
#: One argument that took the machine, or was passed over in silence → what is said of it.
CASES = [
    (("scale", "gpt2", "--cluster", "dgx-h100", "--devices", "1000000000"), "--devices 1000000000"),
    (("predict", "gpt2", "--cluster", "dgx-h100", "--devices", "1000000000"), "--devices 1000000000"),
    (("predict", "gpt2", "--cluster", "dgx-h100:1000000000"), "1000000000 is not between 1 and"),
    (("predict", "gpt2", "--cluster", "dgx-h100:" + "9" * 200), "is not a number of devices"),
    (("search", "gpt2", "--cluster", "dgx-h100:8", "--global-batch-size", "1" + "0" * 18), "is not between"),
    ((*MESH, "--network", "dragonfly:devices=1000000000,routers=4,global=2"), "devices 1000000000"),
    ((*MESH, "--network", "dragonfly:devices=1,routers=65536,global=65536"), "links of the dragonfly"),
    ((*MESH, "--network", "fat-tree:radix=64,hop_us=-1000000"), "hop_us -1e+06 is not between 0"),
    ((*MESH, "--network", "fat-tree:radix=64,hop_us=-1"), "hop_us -1 is not between 0"),
    ((*MESH, "--network", "fat-tree:radix=64,hop_us=nan"), "hop_us 'nan' is not a number"),
    ((*LARGE, "dgx-h100:65536", "--network", "fat-tree"), "flows of all_to_all"),
    ((*LARGE, "dgx-h100:1000000", "--network", "star"), "devices of a simulated network"),
    ((*MESH, "--mesh", "dp=8,tp=8", "--axes", "dp,dp"), "one is named twice"),
    ((*MESH, "--groups", "99999"), "--groups 99999 is not between 1 and 1"),
    (("mesh", "discover", "--synthetic", "1000000000"), "--synthetic 1000000000"),
    (("mesh", "discover", "--ranks", "100000"), "--ranks 100000"),
    (("mesh", "profile", "--ranks", "100000"), "--ranks 100000"),
    ((*PREDICT, "--batch-size", "0"), "--batch-size 0"),
    ((*PREDICT, "--tokens", "1e9", "--price", "inf"), "--price 'inf' is not a number"),
    ((*PREDICT, "--stragglers", "lognormal:inf"), "lognormal:inf"),
    ((*PREDICT, "--plan", "imbalance=inf"), "imbalance=inf"),
    ((*PREDICT, "--plan", "tp=" + "9" * 5000), "is not a whole number"),
    ((*PREDICT, "--plan", "tp=10000000,pp=10000000"), "8 devices are no multiple"),
    (("predict", "gpt2", "--device", "h100-sxm", "--host", "[/red]"), "unknown host '[/red]'"),
    (
        ("predict", "gpt2", "--device", "h100-sxm", "--optimizer-implementation", "banana"),
        "unknown optimizer implementation 'banana'",
    ),
    (("predict", "x" * 300, "--device", "h100-sxm"), "no name is so long"),
    (("scale", "gpt2", "--cluster", "dgx-h100", "--devices", NINETY), "all points of the curve together"),
    (
        ("scale", "gpt2", "--cluster", "dgx-h100:8", "--mode", "serve", *HUNDREDS),
        "cells of --batch-sizes and --contexts: 10000 is not between 1 and 1,000",
    ),
    ((*SERVING, "--output-length", "8", "--num-requests", "1000000000"), "--num-requests 1000000000"),
    ((*MESH, "--bytes", "1e400"), "size '1e400'"),
    ((*MESH, "--bytes", "9" * 5000), "is not a number between 0 and"),
    ((*MESH, "--mesh", "dp=" + "9" * 5000), "--mesh: "),
    ((*MESH, "--mesh", "dp=٣"), "is not AXIS=SIZE"),
    (
        (*SERVING, "--output-length", "8", "--sweep", "concurrency=" + "9" * 50),
        "--concurrency 10^50",
    ),
    ((*SERVING, "--output-length", "8", "--sweep", "replicas=0"), "--replicas 0 is not between"),
    ((*SERVING, "--output-length", "inf"), "--output-length inf"),
    ((*SERVING, "--output-length", "8", "--speculate", "9" * 50 + ":1"), "--speculate"),
    ((*SERVING, "--num-requests", "1000000", "--output-length", "1000"), "tokens of all answers"),
    ((*SERVING, "--output-length", "8", "--seed", "-1"), "--seed -1 is not between 0"),
    (("web", "--port", "65536"), "--port 65536"),
    (("web", "--host", "[/red]"), "[/red]"),
]


@pytest.mark.parametrize(("arguments", "says"), CASES, ids=[" ".join(case[0])[:80] for case in CASES])
def test_an_argument_that_would_take_the_machine_is_one_line(
    arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
):
    begin = time.perf_counter()
    assert run(list(arguments)) == 2
    assert time.perf_counter() - begin < 20
    out, err = capsys.readouterr()
    assert out == ""
    last = err.strip().splitlines()[-1]
    assert says in last
    assert len(last) < LONGEST_LINE
    assert "Traceback" not in err
