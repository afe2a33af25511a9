"""What is printed of a question asks the same question again."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

import perfcast.cli.options.asking as asking
from made_up_questions import command_of, questions
from perfcast.catalogs.clusters import load_cluster
from perfcast.catalogs.devices import load_device
from perfcast.errors import InputError, QuestionError, UnknownNameError
from perfcast.verbs.predict.question import PredictQuestion
from perfcast.verbs.question import (
    VERBS,
    Question,
    check_question,
    files_of,
    plain_of,
    question_class,
    question_of,
)
from perfcast.verbs.spelled import address_of, command_line, python_call, question_of_address

ANY = st.sampled_from(VERBS).flatmap(questions)


def asked_by(question: Question) -> Question:
    """The question that the command line makes of what is printed."""
    words = shlex.split(command_line(question))
    verb = question.verb.split()
    assert words[: 1 + len(verb)] == ["perfcast", *verb]
    command, found = command_of(question.verb), []

    def keep(kind: type[Question], **said: Any) -> Question:
        found.append(kind(**said))
        raise click.Abort

    with patch.object(asking, "make_question", keep), pytest.raises(click.Abort):
        command.main(words[1 + len(verb) :], standalone_mode=False)
    return found[0]


@given(ANY)
def test_a_command_line_asks_what_it_was_printed_of(question: Question):
    assert asked_by(question) == question


@given(ANY)
def test_a_call_in_python_asks_what_it_was_printed_of(question: Question):
    names = {"mesh cost": "mesh_cost"}

    class Named:
        def __getattr__(self, name: str) -> Any:
            last = names.get(question.verb, question.verb.split()[-1])
            return question_class(question.verb) if name == last else self

    assert check_question(eval(python_call(question), {"pc": Named()})) == question


@given(ANY)
def test_plain_data_and_addresses_ask_what_they_were_made_of(question: Question):
    plain = json.loads(json.dumps(plain_of(question)))
    assert question_of(question.verb, plain) == question
    assert question_of_address(question.verb, address_of(question)) == question


def test_only_what_is_said_is_printed():
    question = question_of(
        "predict", {"model": "gpt2", "device": "h100-sxm", "plan": "recompute=full", "tokens": 1e12}
    )
    assert (
        command_line(question)
        == "perfcast predict gpt2 --device h100-sxm --plan recompute=full --tokens 1e+12"
    )
    assert python_call(question) == (
        "pc.predict('gpt2', device='h100-sxm', plan='recompute=full', tokens=1000000000000.0)"
    )


@pytest.mark.parametrize(
    ("plain", "error", "says"),
    [
        ({"model": "gpt2", "devise": "t4"}, UnknownNameError, "Did you mean device"),
        ({"device": "t4"}, QuestionError, "model: 'predict' needs it"),
        ({"model": "gpt2", "batch_size": "8"}, QuestionError, "batch_size: '8' is not a whole number"),
        ({"model": "gpt2", "batch_size": True}, QuestionError, "batch_size"),
        ({"model": "gpt2", "compile": 1}, QuestionError, "compile: 1 is not true or false"),
        ({"model": ["gpt2"]}, QuestionError, "model"),
        ({"model": "gpt2", "inputs": 1}, UnknownNameError, "inputs"),
    ],
)
def test_wrong_plain_data_is_refused_by_name(plain: dict[str, object], error: type[InputError], says: str):
    with pytest.raises(error, match=says):
        question_of("predict", plain)


def test_null_says_nothing():
    assert question_of("predict", {"model": "gpt2", "plan": None}) == question_of(
        "predict", {"model": "gpt2"}
    )


@pytest.mark.parametrize(
    "text",
    ["a.py:build", "../x", "/etc/passwd", "config.json", "C:\\x", "~/x", "dir/x", "X.TOML", ".", "src"],
)
def test_what_may_be_a_file_is_known(
    text: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
):
    monkeypatch.chdir(request.config.rootpath)
    assert files_of(question_of("predict", {"model": text})) == {"model": text}
    assert files_of(question_of("predict", {"model": "gpt2", "price": text})) == {"price": text}


def test_names_are_no_files():
    plain = {"model": "gpt2", "device": "h100-sxm", "cluster": "dgx-h100:64", "price": "2.5", "plan": "tp=2"}
    assert files_of(question_of("predict", plain)) == {}
    assert files_of(question_of("predict", {"model": "timm:resnet50", "cluster": "dgx-h100/4:64"})) == {}
    assert files_of(question_of("search", {"model": "gpt2", "cluster": ["dgx-h100:8,mi300x:8"]})) == {}


def test_what_is_of_the_machine_alone_is_a_place_whatever_it_says():
    plain = {"model": "gpt2", "cluster": "dgx-h100:8", "store": "x", "backend": "ray", "address": "h:1"}
    assert files_of(question_of("search", plain)).keys() == {"store", "backend", "address"}
    local = {"model": "gpt2", "cluster": ["dgx-h100:8", "mine.toml"], "backend": "local"}
    assert files_of(question_of("search", local)) == {"cluster": "mine.toml"}


def test_texts_that_may_be_numbers_take_numbers():
    plain = {"model": "gpt2", "device": "t4", "input_length": 1000, "output_length": 200.5, "max_tpot": 0.05}
    question = question_of("serving", plain)
    assert plain_of(question) == plain | {
        "input_length": "1000",
        "output_length": "200.5",
        "max_tpot": "0.05",
    }
    with pytest.raises(QuestionError, match="framework: 3 is not text"):
        question_of("serving", {"model": "gpt2", "framework": 3})


def test_what_is_of_ones_own_is_not_written_by_a_name_that_means_another():
    device = load_device("h100-sxm")
    assert plain_of(PredictQuestion(model="gpt2", device=device))["device"] == "h100-sxm"
    with pytest.raises(QuestionError, match="device: Device has no name"):
        plain_of(PredictQuestion(model="gpt2", device=replace(device, memory_bytes=1)))
    cluster = load_cluster("dgx-h100:16")
    assert plain_of(PredictQuestion(model="gpt2", cluster=cluster))["cluster"] == "dgx-h100:16"
