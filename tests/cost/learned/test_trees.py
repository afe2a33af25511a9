from __future__ import annotations

import numpy as np

from perfcast.cost.learned.descent import TreeColumns
from perfcast.cost.learned.trees import Trees, TreeSettings, fit_trees

SMALL = TreeSettings(num_trees=150, num_leaves=8, learning_rate=0.2, min_rows_in_leaf=5)


def rows(count: int = 400) -> tuple[np.ndarray, np.ndarray]:
    features = np.random.default_rng(0).uniform(-1, 1, (count, 3))
    return features, np.where(features[:, 0] > 0, 0.5, -0.5)


def fit(features: np.ndarray, target: np.ndarray, **changes: float) -> Trees:
    return fit_trees(features, target, changes.get("weight", np.ones(len(target))), SMALL)


def test_a_step_is_learned_and_held_out_rows_follow_it():
    features, target = rows()
    predicted = fit(features[:300], target[:300]).predict(features[300:])
    assert np.abs(predicted - target[300:]).mean() < 0.1, "a constant would be off by 0.5"


def test_the_same_rows_give_the_same_text():
    first, second = fit(*rows()).columns, fit(*rows()).columns
    assert first is not None
    assert second is not None
    assert first.to_text() == second.to_text()


def test_trees_predict_alike_after_a_round_trip_through_their_text():
    features, target = rows()
    trees = fit(features, target)
    assert trees.columns is not None
    again = Trees(TreeColumns.of_text(trees.columns.to_text()))
    assert again.predict(features).tolist() == trees.predict(features).tolist()


def test_the_value_of_a_row_does_not_depend_on_its_company():
    features, target = rows()
    trees = fit(features, target)
    assert trees.predict(features[7:8])[0] == trees.predict(features)[7]
    assert trees.predict(np.repeat(features, 12, axis=0))[7 * 12] == trees.predict(features)[7]


def test_no_rows_have_no_values():
    assert fit(*rows()).predict(np.zeros((0, 3))).shape == (0,)


def test_a_row_counts_by_its_weight():
    features, target = rows()
    conflict = np.concatenate([features, features]), np.concatenate([target, -target])
    weight = np.repeat([9.0, 1.0], len(target))
    predicted = fit_trees(*conflict, weight, SMALL).predict(features)
    assert (np.sign(predicted) == np.sign(target)).mean() > 0.95
