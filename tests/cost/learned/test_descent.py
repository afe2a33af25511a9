"""Trees followed here give LightGBM's values to the last bit, are kept whole, and are handed back to it."""

from __future__ import annotations

import json
import subprocess
import sys

import lightgbm
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.cost.learned.descent import TreeColumns
from perfcast.cost.learned.store import MODEL_NAMES, load_family
from perfcast.cost.learned.trees import Trees, TreeSettings, fit_trees

RANDOM = np.random.default_rng(0)
FEATURES = RANDOM.normal(size=(600, 4)) * [1, 100, 1e-3, 0] + [0, 0, 0, 3]
FEATURES[::3, 0] = 0.0
TARGET = np.sin(FEATURES[:, 0]) + FEATURES[:, 1] ** 2
FITTED = fit_trees(FEATURES, TARGET, np.ones(600), TreeSettings(20, 31, 0.1, 5))


def booster(trees: TreeColumns) -> lightgbm.Booster:
    return lightgbm.Booster(model_str=trees.to_text())


def columns(trees: Trees) -> TreeColumns:
    assert trees.columns is not None
    return trees.columns


NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([*columns(FITTED).threshold.tolist(), 0.0, -0.0, 1e-35, -1e-35, 1e-36, 3.0]),
)


@given(st.lists(st.lists(NUMBERS, min_size=4, max_size=4), min_size=1, max_size=20))
def test_values_are_those_of_lightgbm_to_the_last_bit(rows: list[list[float]]):
    given_rows, trees = np.array(rows), columns(FITTED)
    assert np.array_equal(trees.predict(given_rows), booster(trees).predict(given_rows))


@pytest.mark.parametrize("model", MODEL_NAMES)
def test_shipped_trees_give_the_values_of_lightgbm(model: str):
    family = load_family(model)
    for trees in (family.common, family.known):
        if trees is None or trees.columns is None:
            continue
        inner = trees.columns
        rows = RANDOM.normal(size=(50, inner.num_features)) * 5
        for feature in range(inner.num_features):
            thresholds = inner.threshold[inner.split_feature == feature]
            if len(thresholds):
                rows[:25, feature] = RANDOM.choice(thresholds, 25)
        assert np.array_equal(inner.predict(rows), booster(inner).predict(rows))


def test_trees_are_kept_whole():
    trees = columns(FITTED)
    again = TreeColumns.of_plain(json.loads(json.dumps(trees.to_plain())))
    assert again.to_text() == trees.to_text()


def test_a_tree_of_one_leaf_adds_its_value():
    flat = fit_trees(FEATURES, np.full(600, 7.0), np.ones(600), TreeSettings(3, 4, 0.1, 5))
    trees = columns(flat)
    assert np.array_equal(trees.predict(FEATURES), booster(trees).predict(FEATURES))


def test_categories_are_refused():
    text = columns(FITTED).to_text().replace("num_cat=0", "num_cat=1", 1)
    with pytest.raises(ValueError, match="num_cat=1"):
        TreeColumns.of_text(text)
    text = columns(FITTED).to_text().replace("decision_type=2", "decision_type=10", 1)
    with pytest.raises(ValueError, match="thresholds alone"):
        TreeColumns.of_text(text)


def test_few_rows_need_no_lightgbm_and_many_take_it():
    program = """
import sys
import numpy as np
from perfcast.cost.learned.store import load_family
trees = load_family("rows").common
rows = np.random.default_rng(0).normal(size=(1000, trees.columns.num_features))
few = trees.predict(rows[:100])
before = "lightgbm" in sys.modules
many = trees.predict(rows)
print(before, "lightgbm" in sys.modules, np.array_equal(few, many[:100]))
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "True", "True"]
