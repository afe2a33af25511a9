"""A choice of sharding as text and JSON."""

from __future__ import annotations

import pytest

from made_up_sharding import problem, random_tables, table
from perfcast.report.data.shard import data_of
from perfcast.report.documents.tables.placed import MAX_TABLES
from perfcast.report.documents.tables.shard import document_of, rules_figure
from perfcast.report.figure import Bars
from perfcast.report.page import render_page
from perfcast.searches.sharding.choose import choose_sharding
from perfcast.searches.sharding.on_cluster import ShardingReport
from rendered import json_of, text_of

HOSTILE = "[red]table[/red]"


def findings(**changes) -> ShardingReport:
    task = problem(changes.pop("tables", random_tables(12, 0)), num_ranks=4, **changes)
    return ShardingReport(
        "made-up", "made-up-device", "sgd", "by hand", choose_sharding(task), ("dense layers are left out",)
    )


def printed(found: ShardingReport, width: int = 110) -> str:
    return text_of(document_of(found), width)


def test_the_text_has_the_step_the_rules_the_devices_and_the_tables():
    found = findings()
    text = printed(found)
    for part in (
        "12 tables", "4 × made-up-device (made-up)", "32 samples a step", "Expected to win",
        "the best published rule", "Published rules", "size_lookup_greedy", "Devices", "table wise", "t11",
        "dense layers are left out", "by hand prices",
    ):  # fmt: skip
        assert part in text
    assert len([line for line in text.splitlines() if len(line) > 110]) == 0


@pytest.mark.parametrize("width", [60, 80])
def test_the_text_folds_to_narrow_terminals(width):
    assert all(len(line) <= width for line in printed(findings(), width).splitlines())


def test_names_are_never_read_as_markup():
    assert HOSTILE in printed(findings(tables=(table(HOSTILE), table("b"))))


def test_a_rule_that_does_not_fit_says_so():
    tables = tuple(table(f"t{i}", num_rows=1000 if i % 4 else 3000, pooling=10) for i in range(8))
    found = findings(tables=tables, memory_bytes=1.6e6)
    assert "no memory" in printed(found)
    missing = [one for one in json_of(data_of(found))["baselines"] if not one["fits"]]
    assert missing
    assert missing[0]["time"] is missing[0]["takes_longer_fraction"] is None


def test_long_lists_are_cut_to_what_matters():
    text = printed(findings(tables=random_tables(MAX_TABLES + 5, 0)))
    assert f"{MAX_TABLES} of {MAX_TABLES + 5} tables, the largest first" in text


@pytest.mark.parametrize("memory_bytes", [1e12, 1.6e6])
def test_json_keeps_the_published_schema_and_has_every_table(memory_bytes):
    tables = tuple(table(f"t{i}", num_rows=1000 if i % 4 else 3000, pooling=10) for i in range(8))
    found = findings(tables=tables, memory_bytes=memory_bytes)
    data = json_of(data_of(found))
    assert [one["name"] for one in data["tables"]] == [one.name for one in tables]
    assert data["num_devices"] == len(data["devices"]) == 4
    assert data["time"]["communication_seconds"] == pytest.approx(found.choice.time.communication_seconds)


def test_the_page_needs_nothing_else_and_has_all_sections():
    html = render_page(document_of(findings()))
    for heading in ("Published rules", "Where the step goes", "Devices", "Tables", "Assumptions"):
        assert f"<h2>{heading}</h2>" in html
    assert html.count('id="figure-') == 3
    assert "this placement" in html
    assert 'src="http' not in html
    assert "size_lookup_greedy" in html


def test_names_in_the_page_are_text():
    html = render_page(document_of(findings(tables=(table("<script>alert(1)</script>"), table("b")))))
    assert "<script>alert(1)" not in html
    assert "&lt;script&gt;alert(1)" in html


def test_the_page_says_which_rule_does_not_fit():
    tables = tuple(table(f"t{i}", num_rows=1000 if i % 4 else 3000, pooling=10) for i in range(8))
    html = render_page(document_of(findings(tables=tables, memory_bytes=1.6e6)))
    assert "no memory" in html


def test_bars_of_rules_are_as_long_as_their_steps():
    choice = findings().choice
    bars = [series for series in rules_figure(choice).series if isinstance(series, Bars)]
    lengths = [sum(row) for row in zip(*(series.values for series in bars), strict=True)]
    fitting = sorted(one.time.step_seconds for one in choice.baselines if one.time)
    assert lengths == pytest.approx([choice.time.step_seconds, *fitting])
