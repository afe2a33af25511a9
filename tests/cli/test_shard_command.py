from __future__ import annotations

import json

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from perfcast.cli.shard import shard
from perfcast.errors import InputError, PlanError
from perfcast.report.answers import schema_of

CSV = "name,num_rows,dim,pooling\nuser,1000000,64,1\nitem,50000,128,20\nad,300,32,5\n"


@pytest.fixture
def tables(tmp_path):
    path = tmp_path / "tables.csv"
    path.write_text(CSV, encoding="utf-8")
    return str(path)


def called(*arguments: str) -> None:
    shard.main(list(arguments), standalone_mode=False)


def test_a_placement_is_printed_and_written(tables, tmp_path, capsys):
    out = tmp_path / "plan.json"
    called(tables, "--cluster", "dgx-a100:4", "--batch-size", "4096", "--json", str(out))
    assert "3 tables" in capsys.readouterr().out
    data = json.loads(out.read_text(encoding="utf-8"))
    Draft202012Validator(schema_of("shard")).validate(data)
    assert data["num_devices"] == 4
    assert data["global_batch_size"] == 4096


def test_a_page_is_written_and_named(tables, tmp_path, capsys):
    page = tmp_path / "plan.html"
    called(tables, "--cluster", "dgx-a100:4", "--batch-size", "4096", "--html", str(page))
    assert f"wrote {page}" in capsys.readouterr().out.replace("\n", "")
    assert ") on 4 × a100-sxm-80gb (dgx-a100), 4,096 samples a step" in page.read_text(encoding="utf-8")


def test_json_on_standard_output_stands_alone(tables, capsys):
    called(tables, "--cluster", "dgx-a100:2", "--json", "-")
    assert {one["name"] for one in json.loads(capsys.readouterr().out)["tables"]} == {"user", "item", "ad"}


def test_samples_of_indices_set_pooling_and_reuse(tables, tmp_path, capsys):
    indices = np.repeat(np.arange(100), 8)
    samples = tmp_path / "day.npz"
    np.savez(samples, **{"ad.indices": indices, "ad.offsets": np.arange(0, 800, 2)})
    called(tables, "--cluster", "dgx-a100:2", "--indices", str(samples), "--json", "-")
    by_name = {one["name"]: one for one in json.loads(capsys.readouterr().out)["tables"]}
    assert by_name["ad"]["pooling"] == 2
    assert by_name["item"]["pooling"] == 20


def test_ways_of_sharding_can_be_withheld(tables, capsys):
    called(tables, "--cluster", "dgx-a100:4", "--kinds", "table_wise", "--json", "-")
    assert {one["sharding"] for one in json.loads(capsys.readouterr().out)["tables"]} == {"table_wise"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--cluster", "dgx-a100:4", "--batch-size", "10"), "take 12"),
        (("--cluster", "dgx-a100:4", "--memory-share", "2"), "--memory-share 2"),
        (("--cluster", "dgx-a100:4", "--kinds", "rows"), "way of sharding"),
        (("--cluster", "dgx-a100:4", "--optimizer", "lion"), "optimizer"),
        (("--cluster", "dgx-a100:4", "--indices", "none.npz"), "cannot read the samples"),
        (("--cluster", "dgx-a1000:4"), "dgx-a100"),
        (("--cluster", "dgx-a100:4", "--json", "/nowhere/plan.json"), "cannot write"),
        (("--cluster", "dgx-a100:4", "--html", "/nowhere/plan.html"), "cannot write"),
    ],
)
def test_what_cannot_be_done_is_said(tables, arguments, said):
    with pytest.raises(InputError, match=said):
        called(tables, *arguments)


def test_tables_that_do_not_fit_are_named(tmp_path):
    path = tmp_path / "tables.csv"
    path.write_text("name,num_rows,dim,pooling\nhuge,100000000000,128,1\n", encoding="utf-8")
    with pytest.raises(PlanError, match=r"'huge'.*are missing"):
        called(str(path), "--cluster", "dgx-a100:8")
