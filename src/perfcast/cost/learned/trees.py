"""Gradient-boosted trees (LightGBM), as columns: fit, predict, and nothing pickled."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.cost.learned.descent import TreeColumns

if TYPE_CHECKING:
    import lightgbm


@dataclass(frozen=True)
class TreeSettings:
    """How much the trees may learn."""

    num_trees: int
    num_leaves: int
    learning_rate: float
    min_rows_in_leaf: int = 40


#: For what holds on every device: few small trees. For one architecture's habits: many.
COMMON = TreeSettings(num_trees=100, num_leaves=15, learning_rate=0.06, min_rows_in_leaf=100)
KNOWN = TreeSettings(num_trees=400, num_leaves=127, learning_rate=0.12, min_rows_in_leaf=20)
KNOWN_OF_FEW = TreeSettings(num_trees=300, num_leaves=47, learning_rate=0.1, min_rows_in_leaf=20)


#: Rows that are followed here; for more of them, or once it is imported, LightGBM is faster.
_FEW_ROWS = 512


@dataclass(frozen=True)
class Trees:
    """A fitted ensemble; no columns where physics says it all."""

    columns: TreeColumns | None = None

    @cached_property
    def _booster(self) -> lightgbm.Booster:
        import lightgbm

        assert self.columns is not None
        return lightgbm.Booster(model_str=self.columns.to_text())

    def predict(self, features: Floats) -> Floats:
        """Value of each row of ``features``, shape [n]."""
        if not len(features) or self.columns is None:
            return np.zeros(len(features))
        if len(features) <= _FEW_ROWS and "lightgbm" not in sys.modules and not np.isnan(features).any():
            return self.columns.predict(features)
        return np.asarray(self._booster.predict(features, num_threads=0 if len(features) > 4096 else 1))


def fit_trees(
    features: Floats, target: Floats, weight: Floats, settings: TreeSettings, threads: int = 1
) -> Trees:
    """Least absolute deviations; deterministic for a given number of rows."""
    import lightgbm

    parameters: dict[str, Any] = {
        "objective": "l1",
        "learning_rate": settings.learning_rate,
        "num_leaves": settings.num_leaves,
        "min_data_in_leaf": settings.min_rows_in_leaf,
        "feature_fraction": 0.6,
        "bagging_fraction": 0.8,
        "bagging_freq": 1,
        "lambda_l2": 1.0,
        "seed": 1,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": threads,
        "verbose": -1,
    }
    data = lightgbm.Dataset(features, target, weight=weight, free_raw_data=True)
    fitted = lightgbm.train(parameters, data, settings.num_trees)
    return Trees(TreeColumns.of_text(fitted.model_to_string()))
