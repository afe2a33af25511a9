"""A result explained: its question asked again, and what became of its figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import perfcast as pc
from perfcast.cli.main import run
from perfcast.verbs.explain_result.figures import compare_figures


@pytest.fixture
def result(tiny: str, tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERFCAST_DATA_DIR", str(tmp_path / "data"))
    assert run(["memory", "config.json", "--device", "a100", "--plan", "tp=2", "--json", "result.json"]) == 0
    return Path("result.json")


def explained(capsys) -> dict[str, Any]:
    capsys.readouterr()
    code = run(["explain-result", "result.json", "--json", "-"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert code == (0 if found["outcome"] == "equal" else 4)
    return found


def changed(result: Path, **values: object) -> None:
    result.write_text(json.dumps({**json.loads(result.read_text()), **values}))


def test_a_result_comes_to_be_again(result: Path, capsys):
    found = explained(capsys)
    assert (found["outcome"], found["reason"], found["changes"], found["differences"]) == (
        "equal",
        "",
        [],
        [],
    )
    assert found["command"] == "perfcast memory config.json --device a100 --plan tp=2"
    assert found["said"] == {"model": "config.json", "--device": "a100", "--plan": "tp=2"}
    assert found["usual"]["--mode"] == "train"
    assert found["inputs"].keys() == {"config.json"}
    assert found["num_compared"] > 50


def test_a_figure_that_was_another_is_named_with_its_difference(result: Path, capsys):
    figure = json.loads(result.read_text())["model"]
    changed(result, model="another")
    found = explained(capsys)
    assert found["outcome"] == "differs"
    assert [(one["path"], one["then"], one["now"]) for one in found["differences"]] == [
        ("model", "another", figure)
    ]
    assert "the program's own code" in found["reason"]


def test_what_has_changed_since_is_named(result: Path, capsys):
    plain = json.loads(result.read_text())
    origin = {**plain["origin"], "weights_sha256": "0" * 64}
    origin["libraries"] = {**origin["libraries"], "torch": "1.0"}
    changed(result, origin=origin, perfcast_version="0.0.1")
    config = Path("config.json")
    config.write_text(config.read_text().replace('"n_layer": 4', '"n_layer": 8'))
    found = explained(capsys)
    assert found["outcome"] == "differs"
    assert {one["what"] for one in found["changes"]} == {"perfcast", "weights", "torch", "config.json"}
    assert found["reason"].startswith("changed since: perfcast, weights, torch, config.json")
    assert any(one["relative"] for one in found["differences"])


def test_an_input_that_is_gone_is_said(result: Path, capsys):
    Path("config.json").unlink()
    found = explained(capsys)
    assert found["outcome"] == "not computed"
    assert "asked now, it is refused" in found["reason"]


def test_a_program_of_others_is_not_run_unasked(result: Path, capsys):
    Path("own.py").write_text("import pathlib; pathlib.Path('ran').touch()")
    origin = json.loads(result.read_text())["origin"]
    changed(result, origin={**origin, "question": {"model": "own.py:f", "device": "a100"}})
    found = explained(capsys)
    assert (found["outcome"], "--allow-code" in found["reason"]) == ("not computed", True)
    assert not Path("ran").exists()
    assert run(["explain-result", "result.json", "--allow-code"]) == 4
    assert Path("ran").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{}", "no result of perfcast"),
        ("[1]", "no result of perfcast"),
        ('{"schema_version": "1", "perfcast_version": "0.1.0"}', "does not say where it comes from"),
        ('{"schema_version": "1", "perfcast_version": "0.1.0", "origin": {"verb": 1}}', "was changed"),
        ("nonsense", "JSON"),
    ],
)
def test_what_is_no_result_is_bad_input(tmp_path: Path, text: str, says: str, capsys):
    (tmp_path / "x.json").write_text(text)
    assert run(["explain-result", str(tmp_path / "x.json")]) == 2
    assert says in capsys.readouterr().err


def test_a_measured_result_is_not_computed_again(result: Path, capsys):
    assert run(["catalog", "devices", "t4", "--json", "result.json"]) == 0
    found = explained(capsys)
    assert (found["outcome"], found["verb"]) == ("not computed", "catalog devices")


def test_from_python_and_as_text(result: Path, capsys):
    found = pc.explain_result(result)
    assert found.is_equal
    assert found.changes == ()
    assert run(["explain-result", "result.json"]) == 0
    assert "Computed again it is equal" in capsys.readouterr().out


def test_figures_are_compared_one_by_one():
    then = {"a": 1.0, "b": [1, 2, 3], "c": "x", "d": True, "origin": 1, "timings": {"e": 1}, "f": 0.0}
    now = {"a": 1.0 + 1e-12, "b": [1, 4], "c": "y", "d": 1, "origin": 2, "timings": {"e": 2}, "f": 1.0}
    count, different = compare_figures(then, now)
    assert count == 7
    assert {(one.path, one.relative) for one in different} == {
        ("b[1]", 1.0), ("b[2]", None), ("c", None), ("d", None), ("f", None),
    }  # fmt: skip
