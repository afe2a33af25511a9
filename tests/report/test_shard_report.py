"""A choice of sharding as text and JSON."""

from __future__ import annotations

import io
import json

import pytest
from jsonschema import Draft202012Validator
from rich.console import Console

from made_up_sharding import problem, random_tables, table
from perfcast.report.shard_figures import plot_rules
from perfcast.report.shard_html import render_sharding_html
from perfcast.report.shard_json import shard_schema, sharding_to_dict
from perfcast.report.shard_text import MAX_TABLES, print_sharding
from perfcast.search.sharding.choose import choose_sharding
from perfcast.search.sharding.on_cluster import ShardingFindings

HOSTILE = "[red]table[/red]"


def findings(**changes) -> ShardingFindings:
    task = problem(changes.pop("tables", random_tables(12, 0)), num_ranks=4, **changes)
    return ShardingFindings(
        "made-up", "made-up-device", "sgd", "by hand", choose_sharding(task), ("dense layers are left out",)
    )


def printed(found: ShardingFindings, width: int = 110) -> str:
    stream = io.StringIO()
    print_sharding(found, Console(file=stream, width=width, highlight=False))
    return stream.getvalue()


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
    missing = [one for one in sharding_to_dict(found)["baselines"] if not one["fits"]]
    assert missing
    assert missing[0]["time"] is missing[0]["takes_longer_fraction"] is None


def test_long_lists_are_cut_to_what_matters():
    text = printed(findings(tables=random_tables(MAX_TABLES + 5, 0)))
    assert f"The {MAX_TABLES} largest of {MAX_TABLES + 5} tables" in text


@pytest.mark.parametrize("memory_bytes", [1e12, 1.6e6])
def test_json_keeps_the_published_schema_and_has_every_table(memory_bytes):
    tables = tuple(table(f"t{i}", num_rows=1000 if i % 4 else 3000, pooling=10) for i in range(8))
    found = findings(tables=tables, memory_bytes=memory_bytes)
    data = json.loads(json.dumps(sharding_to_dict(found), allow_nan=False))
    Draft202012Validator.check_schema(shard_schema())
    Draft202012Validator(shard_schema()).validate(data)
    assert [one["name"] for one in data["tables"]] == [one.name for one in tables]
    assert data["num_devices"] == len(data["devices"]) == 4
    assert data["time"]["exchange_seconds"] == pytest.approx(found.choice.time.exchange_seconds)


def test_the_page_needs_nothing_else_and_has_all_sections():
    html = render_sharding_html(findings())
    for heading in ("Published rules beside it", "Where the step goes", "Devices", "Tables", "Assumptions"):
        assert f"<h2>{heading}</h2>" in html
    assert html.count('id="figure-') == 2
    assert "this placement" in html
    assert 'src="http' not in html
    assert "size_lookup_greedy" in html


def test_names_in_the_page_are_text():
    html = render_sharding_html(findings(tables=(table("<script>alert(1)</script>"), table("b"))))
    assert "<script>alert(1)" not in html
    assert "&lt;script&gt;alert(1)" in html


def test_the_page_says_which_rule_does_not_fit():
    tables = tuple(table(f"t{i}", num_rows=1000 if i % 4 else 3000, pooling=10) for i in range(8))
    html = render_sharding_html(findings(tables=tables, memory_bytes=1.6e6))
    assert "no memory" in html


def test_bars_of_rules_are_as_long_as_their_steps():
    choice = findings().choice
    figure = plot_rules(choice)
    lengths = [sum(bars) for bars in zip(*(trace.x for trace in figure.data), strict=True)]
    fitting = sorted(one.time.step_seconds for one in choice.baselines if one.time)
    assert lengths == pytest.approx([choice.time.step_seconds, *fitting])


def test_every_figure_of_the_schema_is_described_with_its_unit():
    def walk(node):
        for key, value in node.get("properties", {}).items():
            if "$ref" not in value:
                assert value["description"].endswith("."), key
                if key.endswith("_seconds"):
                    assert "in seconds" in value["description"]
                if key.endswith("_bytes"):
                    assert "in bytes" in value["description"]
            walk(value)
            walk(value.get("items", {}))

    walk(shard_schema())
    walk(shard_schema()["$defs"]["time"])
