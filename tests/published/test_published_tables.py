"""Every published system prints its table, or the reason why there is none."""

from __future__ import annotations

import importlib
import json
import math
import pkgutil
import runpy
import sys
from pathlib import Path

import pytest

import perfcast.published
from perfcast.cli.main import run
from perfcast.errors import UnknownNameError
from perfcast.published.comparison import Comparison, Figure, lines_of
from perfcast.published.systems import SYSTEMS, compare_system, find_system

MODULES = sorted(
    one.name.removesuffix(".__main__")
    for one in pkgutil.walk_packages(perfcast.published.__path__, "perfcast.published.")
    if not one.ispkg
)


def has_table(said: str) -> bool:
    return any(
        line.split() == ["|", "published", "|", "ours", "|", "difference"] for line in said.splitlines()
    )


def has_reason(said: str, module: str) -> bool:
    """That it is a part of a system, or the reason that its system gives for having no table."""
    part = module.removeprefix("perfcast.published.")
    reasons = [compare_system(part).reason] if part in SYSTEMS else []
    reasons += [
        compare_system(name).reason for name in SYSTEMS if SYSTEMS[name].home.startswith(f"{module}:")
    ]
    return f"{part}: " in said if not reasons else all(reason in said for reason in reasons)


def exit_code_of(module: str) -> object:
    try:
        runpy.run_module(module, run_name="__main__")
    except SystemExit as end:
        return end.code or 0
    return 0


@pytest.mark.filterwarnings("ignore:.*found in sys.modules.*:RuntimeWarning")
@pytest.mark.parametrize("module", MODULES)
def test_every_module_run_by_its_name_prints_a_table_or_a_reason(module: str, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [module])
    code = exit_code_of(module)
    said = capsys.readouterr().out
    assert code == 0
    assert has_table(said) or has_reason(said, module)


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_comparison_says_what_it_lacks_without_data(name: str):
    found = compare_system(name)
    assert found.system == name
    assert found.paper
    assert found.protocol
    for one in found.figures:
        assert one.published is not None or one.ours is not None
        assert one.ours is not None or one.note or found.reason
        assert all(math.isfinite(value) for value in (one.published, one.ours) if value is not None)


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_systems_package_is_named_as_it_is(name: str):
    home = SYSTEMS[name].home.partition(":")[0]
    assert home.split(".")[2] == name
    assert importlib.import_module(home)


@pytest.mark.parametrize(
    ("published", "ours", "unit", "difference", "text"),
    [
        (200.0, 210.0, "ms", 0.05, "+5.0 %"),
        (31.2, 30.0, "%", -1.2, "-1.2 points"),
        (3.0, 3.0, "s", 0.0, "none"),
        (0.0, 3.0, "s", None, "–"),
        (None, 3.0, "s", None, "–"),
        (3.0, None, "%", None, "–"),
    ],
)
def test_a_difference_is_relative_and_that_of_shares_one_of_points(published, ours, unit, difference, text):
    figure = Figure(what="it", published=published, ours=ours, unit=unit)
    assert figure.difference == (difference if difference is None else pytest.approx(difference))
    assert figure.texts[2] == text


def test_columns_of_a_table_stand_below_each_other():
    figures = tuple(Figure(what=what, published=1.0, ours=2.0) for what in ("one", "another"))
    lines = lines_of(Comparison(system="it", paper="p", protocol="q", figures=figures))
    assert len({line.index("|") for line in lines if "|" in line}) == 1


def test_a_comparison_of_nothing_gives_a_reason():
    with pytest.raises(ValueError, match="nor a reason"):
        Comparison(system="it", paper="p", protocol="q")


def test_names_are_taken_with_hyphens_and_unknown_ones_list_close_ones():
    assert find_system("Data-Movement") == "data_movement"
    with pytest.raises(UnknownNameError, match="neusight"):
        find_system("neusigt")


def test_the_verb_lists_all_systems_and_writes_one_with_its_origin(tmp_path: Path, capsys):
    assert run(["published"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in SYSTEMS)
    place = tmp_path / "it.json"
    assert run(["published", "data-movement", "--json", str(place)]) == 0
    written = json.loads(place.read_text())
    assert written["origin"]["verb"] == "published"
    assert [one["difference"] for one in written["figures"][:4]] == [0.0] * 4


@pytest.mark.parametrize(
    "arguments",
    [
        ["published", "neusigt"],
        ["published", "--data", "."],
        ["published", "habitat", "--data", "."],
    ],
)
def test_bad_questions_are_errors(arguments: list[str], tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == 2


@pytest.mark.parametrize("name", ["searcher_3d", "mesh_cost_model"])
def test_a_system_without_measured_rows_says_that_it_read_nothing(name: str, tmp_path: Path):
    assert any("nothing of" in note for note in compare_system(name, tmp_path).notes)
    assert not any("nothing of" in note for note in compare_system(name).notes)


def test_a_page_draws_the_published_curve_and_ours(tmp_path: Path):
    lines = "log10_training_flop,theoretical_utilization_pct_digitised\n25,69.8\n28,64.9\n"
    (tmp_path / "data_movement_utilization_curve.csv").write_text(lines)
    picture = tmp_path / "curve.svg"
    assert run(["published", "data_movement", "--data", str(tmp_path), "--picture", str(picture)]) == 0
    drawn = picture.read_text()
    assert all(name in drawn for name in ("published", "chosen parameters", "notebook"))


def test_what_several_rows_have_in_common_is_said_once():
    figures = tuple(Figure(what=what, published=1.0, ours=2.0, note="why") for what in ("one", "other"))
    assert Comparison(system="it", paper="p", protocol="q", figures=figures).row_notes == (("one", "why"),)
