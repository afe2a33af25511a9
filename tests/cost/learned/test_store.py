from __future__ import annotations

import ast
import gzip
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from made_up_kernels import products, training_rows
from perfcast.cost.learned import store, trees
from perfcast.cost.learned.store import (
    MODEL_NAMES,
    family_of,
    load_family,
    model_names_of,
    read_content,
    save_family,
)
from perfcast.errors import CalibrationError


def write(folder: Path, content: object) -> Path:
    (folder / "rows.json.gz").write_bytes(gzip.compress(json.dumps(content).encode()))
    return folder


@pytest.mark.parametrize("model", ["product_wide", "product_narrow", "rows", "convolution", "attention"])
def test_a_model_predicts_the_same_after_a_round_trip_through_its_file(model, fitted, weights):
    rows = training_rows(model, count=40, seed=2)
    before, after = (
        family.estimate(rows.kernels, rows.devices, rows.device_index)
        for family in (fitted[model], load_family(model, weights))
    )
    assert after.seconds.tolist() == before.seconds.tolist()
    assert after.seconds_low.tolist() == before.seconds_low.tolist()
    assert after.seconds_high.tolist() == before.seconds_high.tolist()
    assert after.provenance.tolist() == before.provenance.tolist()


def test_a_model_is_the_same_data_after_a_round_trip(fitted, weights):
    before, after = fitted["rows"], load_family("rows", weights)
    assert after.scalars.trust == before.scalars.trust
    assert (after.scalars.apart, after.lean) == (before.scalars.apart, before.lean)
    assert (after.coverage, after.acquainted) == (before.coverage, before.acquainted)
    assert after.scalars.architectures == before.scalars.architectures
    assert (after.shrink, after.spread, after.errors) == (before.shrink, before.spread, before.errors)
    assert (after.architectures, after.trained) == (before.architectures, before.trained)
    assert after.scalars.values.keys() == before.scalars.values.keys()
    assert after.hulls.keys() == before.hulls.keys()


def test_a_file_keeps_the_record_of_its_training(fitted, tmp_path):
    path = save_family(fitted["rows"], "rows", tmp_path / "new", {"num_rows": 7})
    assert path == tmp_path / "new" / "rows.json.gz"
    assert read_content("rows", tmp_path / "new")["record"] == {"num_rows": 7}


def test_a_missing_file_says_how_to_get_it(tmp_path):
    with pytest.raises(CalibrationError, match=r"rows\.json\.gz is missing; reinstall perfcast, or train it"):
        load_family("rows", tmp_path)


@pytest.mark.parametrize(
    "damage", [b"", b"no archive", gzip.compress(b"{", mtime=0), gzip.compress(b"\xff\xfe", mtime=0)]
)
def test_a_damaged_file_says_so(tmp_path, damage):
    (tmp_path / "rows.json.gz").write_bytes(damage)
    with pytest.raises(CalibrationError, match=r"rows\.json\.gz is damaged .*reinstall perfcast"):
        load_family("rows", tmp_path)


def test_half_a_file_is_a_damaged_one(weights, tmp_path):
    whole = (weights / "rows.json.gz").read_bytes()
    (tmp_path / "rows.json.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CalibrationError, match="is truncated"):
        load_family("rows", tmp_path)


@pytest.mark.parametrize(
    "content", [{}, [], None, 7, {"schema": 999, "model": "rows"}, {"schema": store.SCHEMA, "model": "scan"}]
)
def test_a_file_of_another_schema_or_model_says_to_train_again(tmp_path, content):
    with pytest.raises(CalibrationError, match="of another version; train it again: perfcast train learned"):
        load_family("rows", write(tmp_path, content))


@pytest.mark.parametrize("missing", ["scalars", "trust", "known", "hulls", "spread"])
def test_a_file_without_a_part_of_the_model_says_to_train_again(weights, tmp_path, missing):
    content = read_content("rows", weights)
    del content[missing]
    with pytest.raises(CalibrationError, match=f"whole model .*{missing}.*; train it again"):
        load_family("rows", write(tmp_path, content))


def test_nothing_is_pickled(fitted, tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("pickled")

    for name in ("dump", "dumps", "load", "loads", "Pickler", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    save_family(fitted["rows"], "rows", tmp_path, {})
    rows = training_rows("rows", count=2)
    load_family("rows", tmp_path).estimate(rows.kernels, rows.devices, rows.device_index)


@pytest.mark.parametrize("module", [store, trees])
def test_no_module_that_runs_code_from_a_file_is_imported(module):
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not imported & {"pickle", "joblib", "dill", "cloudpickle", "marshal", "shelve"}


def test_every_model_has_a_family_with_its_physics():
    for name in MODEL_NAMES:
        module = family_of(name)
        assert name.removesuffix("_wide").removesuffix("_narrow") == module.family.value
        assert len(set(module.feature_names)) == len(module.feature_names)


def test_products_are_split_by_the_width_of_their_format():
    kernels = products(3, dtype=np.array(["fp32", "bf16", "fp64"], dtype=object))
    assert model_names_of(kernels).tolist() == ["product_wide", "product_narrow", "product_wide"]
