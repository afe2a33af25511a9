"""Two answers side by side."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.report.compare import compare_documents
from perfcast.report.document import Card, Column, Document, Section, Table
from perfcast.report.documents.compared import document_of
from perfcast.report.documents.step.plan import document_of as plan_document
from plan_forecasts import plan_forecast
from rendered import json_of, text_of


def made_up(seconds: float, spread: float, **parts: float) -> Document:
    """A step with an interval around it, and its parts."""
    table = Table(
        columns=(Column("Part"), Column("Time", "s"), Column("Share", "share")),
        rows=tuple((name, amount, amount / seconds) for name, amount in parts.items()),
    )
    card = Card(label="Step", value=seconds, unit="s", low=seconds - spread, high=seconds + spread)
    return Document(title=f"{seconds}", cards=(card,), blocks=(Section(title="Parts", blocks=(table,)),))


def test_intervals_that_touch_are_not_told_apart():
    assert compare_documents(made_up(10.0, 1.0), made_up(12.0, 1.0)).figures[0].is_told_apart is False
    assert compare_documents(made_up(10.0, 1.0), made_up(12.1, 1.0)).figures[0].is_told_apart is True
    assert compare_documents(made_up(12.1, 1.0), made_up(10.0, 1.0)).figures[0].is_told_apart is True


def test_parts_that_one_has_not_are_nothing_there_and_the_largest_change_comes_first():
    found = compare_documents(made_up(10.0, 1.0, a=8.0, b=2.0), made_up(9.0, 1.0, a=7.5, c=1.5))
    assert [(part.label, part.difference) for part in found.parts] == [("b", -2.0), ("c", 1.5), ("a", -0.5)]


@given(st.floats(1e-6, 1e3), st.floats(1e-6, 1e3))
def test_the_other_way_round_every_difference_changes_its_sign(first, second):
    one, other = made_up(first, first / 10, a=first), made_up(second, second / 10, a=second)
    there, back = compare_documents(one, other), compare_documents(other, one)
    assert there.figures[0].difference == -back.figures[0].difference
    assert there.figures[0].is_told_apart == back.figures[0].is_told_apart
    assert there.parts[0].difference == -back.parts[0].difference


def test_two_plans_are_compared_as_text_and_json():
    faster = replace(plan_forecast(), step_seconds_low=0.001, step_seconds_high=0.002)
    found = compare_documents(plan_document(plan_forecast()), plan_document(faster))
    written = json_of(found)
    assert written["figures"][0]["label"] == "Step"
    assert written["figures"][0]["is_told_apart"] is True
    text = text_of(document_of(found))
    assert "told apart" in text
    assert "The same in both:" in text


def test_a_figure_without_an_interval_says_that_nothing_is_known():
    found = compare_documents(*(Document(title="t", cards=(Card(label="n", value=n),)) for n in (1, 2)))
    assert found.figures[0].is_told_apart is None
    assert found.figures[0].ratio == pytest.approx(2.0)
    assert "nothing says whether they can be told apart" in text_of(document_of(found)).replace("\n", " ")


def swept(**seconds: float) -> Document:
    """A sweep, which has rows and no headline."""
    table = Table(
        columns=(Column(""), Column("Devices"), Column("Step", "s"), Column("MFU", "share")),
        rows=tuple(("●", name, value, 0.5) for name, value in seconds.items()),
    )
    return Document(title="sweep", blocks=(table,))


def test_answers_without_a_headline_are_compared_row_by_row():
    found = compare_documents(swept(a=1.0, b=2.0), swept(b=3.0, c=4.0))
    assert [(figure.label, figure.difference, figure.unit) for figure in found.figures] == [
        ("b: Step", 1.0, "s")
    ]
