"""Documents inside a notebook."""

import pytest

from builders import small_forecast
from perfcast.report.document import Card, Column, Document, Section, Table
from perfcast.report.documents.serving.forecast import document_of as serving_document
from perfcast.report.documents.step.device import document_of as step_document
from perfcast.report.documents.step.plan import document_of as plan_document
from perfcast.report.inline import render_inline
from plan_forecasts import plan_forecast
from serving_forecasts import with_both_forms

DOCUMENTS = {
    "step": lambda: step_document(small_forecast()),
    "plan": lambda: plan_document(plan_forecast()),
    "serving": lambda: serving_document(with_both_forms()),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_it_is_small_runs_nothing_and_loads_nothing(name):
    html = render_inline(DOCUMENTS[name]())
    assert len(html) < 12_000
    assert "<script" not in html
    assert "url(" not in html
    assert " src=" not in html


def test_styles_reach_nothing_outside_the_element():
    html = render_inline(DOCUMENTS["step"]())
    style = html.split("<style>")[1].split("</style>")[0]
    selectors = [part.rpartition("}")[2] for part in style.split("{")[:-1]]
    assert all("perfcast-result" in one or "@media" in one for one in selectors)


def test_text_is_escaped_and_long_tables_are_cut():
    rows = tuple((f"<b>{number}", number) for number in range(30))
    table = Table(columns=(Column("<i>"), Column("n", "number")), rows=rows, things="lines")
    document = Document(
        title="<script>", cards=(Card(label="<u>", value=1),), blocks=(Section(title="T", blocks=(table,)),)
    )
    html = render_inline(document)
    assert "<script>" not in html
    assert "<b>" not in html
    assert "<u>" not in html
    assert "8 of 30 lines" in html
