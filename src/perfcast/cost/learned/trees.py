"""Gradient-boosted trees (LightGBM), as text: fit, predict, and nothing pickled."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from perfcast.core.arrays import Floats

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


@dataclass(frozen=True)
class Trees:
    """A fitted ensemble; ``text`` is LightGBM's own model format, or nothing where physics says it all."""

    text: str

    @cached_property
    def _booster(self) -> lightgbm.Booster:
        import lightgbm

        return lightgbm.Booster(model_str=self.text)

    def predict(self, features: Floats) -> Floats:
        """Value of each row of ``features``, shape [n]."""
        if not len(features) or not self.text:
            return np.zeros(len(features))
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
    return Trees(lightgbm.train(parameters, data, settings.num_trees).model_to_string())
