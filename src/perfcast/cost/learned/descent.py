"""Gradient-boosted trees in columns: kept, followed, and handed to LightGBM.

``predict`` is exactly what ``Tree::Predict`` of LightGBM 4 does with numbers without missing values and
categories (include/LightGBM/tree.h: ``NumericalDecision``; src/boosting/gbdt_prediction.cpp:
``PredictRaw``): a row goes left where its feature is at most the threshold, and the leaves that it reaches
are added tree by tree. For the few rows of a first forecast that takes a fraction of the time that importing
LightGBM does.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from perfcast.core.arrays import Floats, Integers

#: Numerical, missing values not told apart, which then count as 0: what features without any are fitted to.
_PLAIN_DECISION = "2"
#: Up to which LightGBM takes a number for 0 (include/LightGBM/meta.h: ``kZeroThreshold``, a float).
_ZERO = float(np.float32(1e-35))
_INTEGERS = ("num_leaves", "split_feature", "left_child", "right_child")
_FLOATS = ("threshold", "leaf_value")


@dataclass(frozen=True, eq=False)
class TreeColumns:
    """Trees as LightGBM numbers them: inner nodes from 0, leaf k as child -1 - k; all trees in a row.

    Attributes:
        num_leaves: Of each tree, shape [trees]; a tree has one inner node less.
        split_feature, threshold, left_child, right_child: Of inner nodes.
        leaf_value: Of leaves.
        num_features: Of a row.
    """

    num_leaves: Integers
    split_feature: Integers
    threshold: Floats
    left_child: Integers
    right_child: Integers
    leaf_value: Floats
    num_features: int

    @cached_property
    def _descent(self) -> _Descent:
        return _descent(self)

    def predict(self, rows: Floats) -> Floats:
        """Value of each row, shape [n]; rows of shape [n, features] without missing values."""
        return self._descent.predict(rows)

    def to_plain(self) -> dict[str, Any]:
        """For JSON: bytes of little-endian numbers; thresholds, which repeat, by their place among them."""
        values, places = np.unique(self.threshold, return_inverse=True)
        found: dict[str, Any] = {name: _written(getattr(self, name), "<i2") for name in _INTEGERS}
        found["threshold"] = [_written(values, "<f8"), _written(places.ravel(), "<i4")]
        return found | {"leaf_value": _written(self.leaf_value, "<f8"), "num_features": self.num_features}

    @classmethod
    def of_plain(cls, plain: Mapping[str, Any]) -> TreeColumns:
        """As ``to_plain`` has written it.

        Raises:
            KeyError, TypeError, ValueError, IndexError: It has not.
        """
        num_leaves, split_feature, left, right = (
            _read(plain[name], "<i2").astype(np.int64) for name in _INTEGERS
        )
        values, places = plain["threshold"]
        threshold = _read(values, "<f8")[_read(places, "<i4")]
        leaf_value, num_features = _read(plain["leaf_value"], "<f8"), int(plain["num_features"])
        return cls(num_leaves, split_feature, threshold, left, right, leaf_value, num_features)

    @classmethod
    def of_text(cls, text: str) -> TreeColumns:
        """Those of a model as LightGBM writes it.

        Raises:
            ValueError: Trees with categories, missing values or linear leaves.
        """
        columns: dict[str, list[str]] = {name: [] for name in (*_INTEGERS, *_FLOATS, "decision_type")}
        head, _, trees = text.partition("\nTree=")
        for line in trees.partition("end of trees")[0].split("\n"):
            name, _, values = line.partition("=")
            if name in columns:
                columns[name] += values.split()
            elif name in ("num_cat", "is_linear") and values != "0":
                raise ValueError(f"trees with {name}={values}")
        if {*columns.pop("decision_type")} - {_PLAIN_DECISION}:
            raise ValueError("trees that decide otherwise than by thresholds alone")
        num_leaves, split_feature, left, right = (
            np.array(columns[name], dtype=np.int64) for name in _INTEGERS
        )
        threshold, leaf_value = (np.array([float(value) for value in columns[name]]) for name in _FLOATS)
        most = next(line for line in head.split("\n") if line.startswith("max_feature_idx="))
        num_features = int(most.partition("=")[2]) + 1
        return cls(num_leaves, split_feature, threshold, left, right, leaf_value, num_features)

    def to_text(self) -> str:
        """As LightGBM reads it."""
        inner = np.split(np.arange(len(self.threshold)), np.cumsum(self.num_leaves - 1)[:-1])
        leaves = np.split(self.leaf_value, np.cumsum(self.num_leaves)[:-1])
        lines = [
            *("tree", "version=v4", "num_class=1", "num_tree_per_iteration=1", "label_index=0"),
            f"max_feature_idx={self.num_features - 1}",
            "objective=regression_l1",
            "feature_names=" + " ".join(f"Column_{i}" for i in range(self.num_features)),
            "feature_infos=" + " ".join(["none"] * self.num_features),
        ]
        for number, (at, values) in enumerate(zip(inner, leaves, strict=True)):
            lines += ["", f"Tree={number}", f"num_leaves={len(values)}", "num_cat=0"]
            if len(at):
                lines.append(_line("decision_type", [int(_PLAIN_DECISION)] * len(at)))
                for name in ("split_feature", "threshold", "left_child", "right_child"):
                    lines.append(_line(name, getattr(self, name)[at].tolist()))
            lines += [_line("leaf_value", values.tolist()), "is_linear=0", "shrinkage=1", ""]
        return "\n".join([*lines, "", "end of trees", ""])


def _line(name: str, values: list[Any]) -> str:
    return f"{name}={' '.join(map(repr, values))}"


def _written(numbers: np.ndarray[Any, Any], kind: str) -> str:
    found = numbers.astype(kind)
    if not np.array_equal(found, numbers):
        raise ValueError("trees with more nodes than a number of two bytes counts")
    return b64encode(found.tobytes()).decode()


def _read(text: str, kind: str) -> np.ndarray[Any, Any]:
    return np.frombuffer(b64decode(text, validate=True), dtype=kind)


# ---- following them ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Descent:
    """Inner nodes of all trees in a row, and behind them their leaves.

    Attributes:
        features, thresholds, left, right: Of inner nodes; a child of ``num_inner`` and more is a leaf.
        roots: Of each tree.
    """

    features: Integers
    thresholds: Floats
    left: Integers
    right: Integers
    leaves: Floats
    roots: Integers
    num_inner: int

    def predict(self, rows: Floats) -> Floats:
        count, width = rows.shape
        flat = np.where(np.abs(rows) > _ZERO, rows, 0.0).ravel()
        at = np.repeat(self.roots, count)
        on_the_way = np.flatnonzero(at < self.num_inner)
        offset = (np.tile(np.arange(count), len(self.roots)) * width)[on_the_way]
        while len(on_the_way):
            node = at[on_the_way]
            goes_left = flat[self.features[node] + offset] <= self.thresholds[node]
            at[on_the_way] = node = np.where(goes_left, self.left[node], self.right[node])
            is_inner = node < self.num_inner
            on_the_way, offset = on_the_way[is_inner], offset[is_inner]
        total = np.zeros(count)
        for found in self.leaves[at - self.num_inner].reshape(-1, count):
            total += found  # one after the other, as LightGBM adds them
        return total


def _descent(trees: TreeColumns) -> _Descent:
    num_leaves, num_inner = trees.num_leaves, trees.num_leaves - 1
    first_inner = np.concatenate([[0], np.cumsum(num_inner)[:-1]])
    first_leaf = num_inner.sum() + np.concatenate([[0], np.cumsum(num_leaves)[:-1]])
    shift, leaf_shift = np.repeat(first_inner, num_inner), np.repeat(first_leaf, num_inner)
    left, right = (
        np.where(child >= 0, child + shift, leaf_shift - 1 - child)
        for child in (trees.left_child, trees.right_child)
    )
    return _Descent(
        features=trees.split_feature,
        thresholds=trees.threshold,
        left=left,
        right=right,
        leaves=trees.leaf_value,
        roots=np.where(num_inner > 0, first_inner, first_leaf),
        num_inner=int(num_inner.sum()),
    )
