"""Documents in a few lines."""

from hypothesis import given
from hypothesis import strategies as st

from builders import small_forecast
from perfcast.report.brief import brief_of
from perfcast.report.document import Card, Column, Document, Fact, Table
from perfcast.report.documents.step.device import document_of as step_document
from perfcast.report.documents.step.plan import document_of as plan_document
from plan_forecasts import plan_forecast

TEXTS = st.text(max_size=200)


def test_a_step_is_its_time_memory_and_what_limits_it():
    lines = brief_of(step_document(small_forecast())).splitlines()
    assert lines[0] == "tiny on NVIDIA H100 SXM"
    assert lines[2] == "Step time 2.66 ms (2.39 ms – 3.32 ms)"
    assert "Peak memory 463 MiB of 80.0 GiB" in lines[3]
    assert lines[4] == "Limited by compute 77.8 %, memory 22.2 %"


def test_a_plan_says_what_its_step_goes_to():
    assert (
        brief_of(plan_document(plan_forecast())).splitlines()[-1]
        == "Goes to compute 65.0 %, pipeline bubble 25.0 %"
    )


def test_a_document_without_cards_is_told_by_its_first_facts():
    document = Document(title="a", facts=(Fact("b", "c"), Fact("d", "e"), Fact("f", "g")))
    assert brief_of(document) == "a\nb: c\nd: e"


@given(TEXTS, TEXTS, TEXTS, st.lists(TEXTS, max_size=20))
def test_it_never_takes_more_than_six_lines_of_a_terminal(title, lead, verdict, labels):
    cards = tuple(Card(label=" ".join(label.split()), value=1.0, unit="s") for label in labels)
    said = [" ".join(text.split()) for text in (title, lead, verdict)]
    document = Document(title=said[0], lead=said[1], verdict=said[2], cards=cards, limits="Limited by a")
    lines = brief_of(document).split("\n")
    assert len(lines) <= 6
    assert all(0 < len(line) <= 120 for line in lines)


def test_a_document_without_cards_is_told_by_some_rows_of_its_first_table():
    rows = tuple(("●", str(count), 1.0 / count, None) for count in (1, 2, 4, 8, 16))
    columns = (Column(""), Column("Devices"), Column("Step", "s"), Column("Cost", "$"))
    document = Document(title="t", blocks=(Table(columns=columns, rows=rows),))
    assert brief_of(document).splitlines() == [
        "t",
        "Devices 1 · Step 1.00 s",
        "Devices 4 · Step 250 ms",
        "Devices 16 · Step 62.5 ms",
    ]
