"""A sweep's cells and keys."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.errors import InputError
from perfcast.searches.sweep.cells import Cell, SweepJob, expand_grid, key_cells, list_versions

CELL = Cell("gpt2", "dgx-h100:8", 8, 1024)


def open_nothing(settings):
    return lambda cell: []


def open_other(settings):
    return lambda cell: []


JOB = SweepJob(open_nothing, {"step_seconds": float}, {"goal": "time"}, {"perfcast": "1"})


@given(
    models=st.lists(st.sampled_from("abc"), min_size=1, max_size=4),
    batches=st.lists(st.integers(1, 5), min_size=1, max_size=4),
)
def test_a_grid_holds_every_combination_once(models, batches):
    cells = expand_grid(models, ["x:8"], batches, [1024])
    assert set(cells) == {Cell(m, "x:8", b, 1024) for m in models for b in batches}
    assert len(cells) == len(set(cells))


def test_cells_of_a_model_and_cluster_stand_together():
    cells = expand_grid(["a", "b"], ["x", "y"], [1, 2], [3])
    assert [(c.model, c.cluster) for c in cells] == [
        ("a", "x"), ("a", "x"), ("a", "y"), ("a", "y"), ("b", "x"), ("b", "x"), ("b", "y"), ("b", "y"),
    ]  # fmt: skip


def test_an_empty_list_is_refused_by_name():
    with pytest.raises(InputError, match="no clusters and no batch sizes"):
        expand_grid(["a"], [], [], [1])


def test_a_batch_of_nothing_is_refused():
    with pytest.raises(InputError, match="0 is not"):
        expand_grid(["a"], ["x"], [0], [1])


@pytest.mark.parametrize(
    "other",
    [
        replace(JOB, settings={"goal": "cost"}),
        replace(JOB, versions={"perfcast": "2"}),
        replace(JOB, columns={"step_seconds": int}),
        replace(JOB, open_search=open_other),
    ],
)
def test_a_key_changes_with_all_that_the_result_depends_on(other):
    assert other != JOB
    assert key_cells(other, [CELL]) != key_cells(JOB, [CELL])


def test_jobs_of_one_content_are_equal_however_their_settings_are_ordered():
    one, two = replace(JOB, settings={"a": 1, "b": 2}), replace(JOB, settings={"b": 2, "a": 1})
    assert one == two
    assert hash(one) == hash(two)
    assert one != "another thing"


@pytest.mark.parametrize("field", ["model", "cluster", "global_batch_size", "sequence_length"])
def test_every_value_of_a_cell_is_in_its_key(field):
    value = getattr(CELL, field)
    other = replace(CELL, **{field: f"{value}0" if isinstance(value, str) else value + 1})
    first, second = key_cells(JOB, [CELL, other])
    assert first != second


@pytest.mark.parametrize("name", ["config.json", "cluster.toml"])
def test_a_named_file_counts_by_its_content(tmp_path, name):
    file = tmp_path / name
    file.write_text("a")
    cell = replace(CELL, model=str(file)) if name == "config.json" else replace(CELL, cluster=f"{file}:8")
    before = key_cells(JOB, [cell])
    file.write_text("b")
    assert key_cells(JOB, [cell]) != before
    file.write_text("a")
    assert key_cells(JOB, [cell]) == before


def test_a_folder_counts_by_the_configs_in_it(tmp_path):
    (tmp_path / "weights.bin").write_text("ignored")
    (tmp_path / "config.json").write_text("a")
    cell = replace(CELL, model=str(tmp_path))
    before = key_cells(JOB, [cell])
    (tmp_path / "weights.bin").write_text("changed")
    assert key_cells(JOB, [cell]) == before
    (tmp_path / "config.json").write_text("b")
    assert key_cells(JOB, [cell]) != before


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(InputError, match=r"folder\.json: cannot be read"):
        key_cells(JOB, [replace(CELL, model=str(tmp_path))])


def test_versions_name_the_package_and_the_content_of_its_files(tmp_path, monkeypatch):
    monkeypatch.setattr("perfcast.prediction.installed.data_folder", lambda: tmp_path)
    before = list_versions()
    assert before.keys() >= {"perfcast", "files", "measured", "numpy"}
    assert list_versions() == before
    (tmp_path / "profile_h100-sxm.json").write_text("{}")
    after = list_versions()
    assert {name for name in after if after[name] != before[name]} == {"measured"}


def test_settings_that_json_cannot_say_are_refused():
    with pytest.raises(TypeError):
        _ = replace(JOB, settings={"goal": object()}).key
