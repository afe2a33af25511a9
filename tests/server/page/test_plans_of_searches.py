"""A row of a search's tables as the question that forecasts its plan."""

from __future__ import annotations

import pytest

pytest.importorskip("nicegui", reason="the page needs perfcast[web]")

from perfcast.errors import InputError
from perfcast.report.document import Command, Document, Section
from perfcast.server.page.plans import plain_of_command, question_of_plan

BEST = (
    "perfcast predict gpt2 --cluster dgx-h100:4 --plan dp=4,mbs=4 --batch-size 16 --dtype bf16 --closed-form"
)
FOUND = Document(title="t", blocks=(Section(title="again", blocks=(Command(BEST),)),))


def test_all_but_the_plan_is_what_the_search_says_of_its_best_one():
    verb, plain = question_of_plan(
        FOUND, {"Plan": "tp=2 dp=2 mbs=1; and 2 alike: mbs=2", "Method": "simulated"}
    )
    assert verb == "predict"
    assert plain == {
        "model": "gpt2",
        "cluster": "dgx-h100:4",
        "plan": "tp=2,dp=2,mbs=1",
        "batch_size": 16,
        "dtype": "bf16",
    }


def test_a_row_of_another_cluster_batch_or_method_says_so():
    cells = {"Plan": "tp=2", "Cluster": "mi300x:8", "Batch": "1,024", "Method": "closed form"}
    _, plain = question_of_plan(FOUND, cells)
    assert (plain["cluster"], plain["batch_size"], plain["closed_form"]) == ("mi300x:8", 1024, True)


@pytest.mark.parametrize("cells", [{}, {"Plan": ""}])
def test_a_row_without_a_plan_is_refused(cells):
    with pytest.raises(InputError, match="no plan"):
        question_of_plan(FOUND, cells)


def test_an_answer_without_a_command_is_refused():
    with pytest.raises(InputError, match="sweep"):
        question_of_plan(Document(title="t"), {"Plan": "tp=2"})


def test_unknown_options_are_refused():
    with pytest.raises(InputError, match="--fast"):
        plain_of_command("predict", "gpt2 --fast")
