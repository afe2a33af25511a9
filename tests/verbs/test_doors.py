"""Verbs as functions of Python."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest

import perfcast as pc
from perfcast.catalogs.devices import load_device
from perfcast.errors import InputError, QuestionError, UnknownNameError
from perfcast.verbs.question import VERBS, question_class


def door_of(verb: str) -> object:
    found: object = pc
    for word in {"mesh cost": ["mesh_cost"]}.get(verb, verb.split()):
        found = getattr(found, word)
    return found


@pytest.mark.parametrize("verb", VERBS)
def test_a_function_takes_what_its_question_has(verb: str):
    function, kind = door_of(verb), question_class(verb)
    assert callable(function)
    taken = inspect.signature(function).parameters
    assert list(taken) == list(inspect.signature(kind).parameters)
    assert {one.name for one in fields(kind)} <= taken.keys()
    assert not [one for one in taken.values() if one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL)]
    assert all(f"\n    {name}: " in (function.__doc__ or "") for name in taken)


def test_a_wrong_keyword_is_a_type_error_that_names_the_close_one():
    with pytest.raises(TypeError, match="'batchsize'; did you mean 'batch_size'"):
        pc.predict("gpt2", "h100-sxm", batchsize=4)  # type: ignore[call-arg]


def test_a_wrong_value_is_refused_by_name():
    with pytest.raises(QuestionError, match="batch_size: '4' is not a whole number"):
        pc.predict("gpt2", "h100-sxm", batch_size="4")  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="Did you mean train"):
        pc.predict("gpt2", "h100-sxm", mode="trian")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"Did you mean .*h100-sxm"):
        pc.predict("gpt2", "h100-sx")


def test_a_plan_is_taken_as_its_text_is():
    plan = pc.Plan(tensor_parallel=2, sequence_parallel=True, micro_batch_size=8)
    given = pc.predict("gpt2", cluster="dgx-h100:2", plan=plan, sequence_length=64, cost_model="roofline")
    said = pc.predict(
        "gpt2",
        cluster="dgx-h100:2",
        plan="tp=2,mbs=8,recompute=none",
        batch_size=8,
        sequence_length=64,
        cost_model="roofline",
    )
    assert isinstance(given, pc.PlanForecast)
    assert given.plan == plan
    assert given.step_seconds == said.step_seconds


def test_dir_shows_what_is_public():
    assert dir(pc) == sorted(pc.__all__)


def test_devices_and_clusters_are_taken_as_their_names_are():
    load = {
        "input_length": 64,
        "output_length": 8,
        "concurrency": 2,
        "num_requests": 4,
        "cost_model": "roofline",
    }
    device = load_device("h100-sxm")
    named, given = (pc.serving("gpt2", where, **load) for where in ("h100-sxm", device))
    assert named.to_dict() == given.to_dict()
    assert named.command == given.command


def test_lists_are_taken_where_several_are():
    found = pc.scale("gpt2", cluster=["dgx-h100"], devices=[2, 4], batch_size=8, sequence_length=64)  # type: ignore[arg-type]
    assert (
        found.command
        == "perfcast scale gpt2 --cluster dgx-h100 --devices 2,4 --batch-size 8 --sequence-length 64"
    )


def test_bounds_of_numbers_hold_from_python_too():
    with pytest.raises(QuestionError, match="top: 2000 is not between 1 and 1,000"):
        pc.search("gpt2", cluster="dgx-h100:8", global_batch_size=8, top=2000)
