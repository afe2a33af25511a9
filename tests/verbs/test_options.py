"""Click's options of a verb and the fields of its question are the same: names, types, defaults."""

from __future__ import annotations

import click
import pytest

from made_up_questions import command_of
from perfcast.verbs.question import VERBS, field_kinds, plain_fields, question_class, usual_values
from perfcast.verbs.schema import described, question_schema

#: Where an answer goes and how it is shown is no part of what is asked.
OUTPUTS = {
    *("json", "html", "picture", "timeline", "require_fit", "brief", "help"),
    *("chakra", "launch", "launch_model", "output", "generate_folder", "anonymise"),
}


#: Measured tables are evidence, which nothing but the command line reads.
EVIDENCE = {"mesh cost": {"data"}}


def options_of(verb: str) -> dict[str, click.Parameter]:
    fields = {one.name for one in plain_fields(question_class(verb))}
    found, others = command_of(verb).params, (OUTPUTS - fields) | EVIDENCE.get(verb, set())
    return {str(one.name): one for one in found if one.name not in others}


@pytest.mark.parametrize("verb", VERBS)
def test_a_question_has_a_field_for_every_option_and_no_other(verb: str):
    assert options_of(verb).keys() == {one.name for one in plain_fields(question_class(verb))}


@pytest.mark.parametrize("verb", VERBS)
def test_an_option_is_written_as_its_field_is_called(verb: str):
    arguments = set(question_class(verb).arguments)
    for name, option in options_of(verb).items():
        assert isinstance(option, click.Argument) == (name in arguments)
        if isinstance(option, click.Option):
            assert f"--{name.replace('_', '-')}" in option.opts


@pytest.mark.parametrize("verb", VERBS)
def test_what_an_option_shows_as_its_default_is_what_is_usual(verb: str):
    usual = usual_values(question_class(verb))
    for name, option in options_of(verb).items():
        default = option.to_info_dict()["default"]
        if name in usual:
            assert default == usual[name]
        else:
            assert default in (None, False, ())


@pytest.mark.parametrize("verb", VERBS)
def test_an_option_takes_what_its_field_takes(verb: str):
    kinds = field_kinds(question_class(verb))
    of_click = {"integer": int, "float": float, "boolean": bool}
    for name, option in options_of(verb).items():
        kind = kinds[name]
        is_several = option.multiple or option.nargs != 1
        if kind.scalar is str or is_several:
            assert (of_click.get(option.type.name, str), is_several) == (kind.scalar, kind.is_list)
        elif option.callback is None:
            assert (of_click[option.type.name], kind.is_list) == (kind.scalar, False)
        if kind.scalar in (int, float):
            assert kind.bounds is not None, f"{name}: what may it be?"


@pytest.mark.parametrize("verb", VERBS)
def test_every_field_is_described_and_helps_options(verb: str):
    texts = described(question_class(verb))
    assert {one.name for one in plain_fields(question_class(verb))} <= texts.keys()
    for name, option in options_of(verb).items():
        if isinstance(option, click.Option):
            assert option.help == texts[name]


@pytest.mark.parametrize("verb", VERBS)
def test_the_schema_of_a_question_lists_its_fields(verb: str):
    schema = question_schema(verb)
    assert schema["properties"].keys() == options_of(verb).keys()
    assert not schema["additionalProperties"]
