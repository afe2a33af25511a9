"""Fitted families on disk: one compressed JSON file each; trees as columns inside, no pickle."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from perfcast.core.kernel import KernelFamily, KernelTable
from perfcast.cost.learned.descent import TreeColumns
from perfcast.cost.learned.family import Family
from perfcast.cost.learned.kinship import KINS, Segment
from perfcast.cost.learned.predictor import CellError, FittedFamily, Hull, Quantiles, Spread
from perfcast.cost.learned.scalars import DeviceScalars
from perfcast.cost.learned.trees import Trees
from perfcast.errors import CalibrationError
from perfcast.files.looking import path_exists
from perfcast.files.reading import read_bytes
from perfcast.files.writing import make_folder, write_bytes_atomically

SCHEMA = 2
WEIGHTS = Path(__file__).parent.parent / "weights" / "learned"

#: Models by name: the kernels of a family are split where libraries are of another kind.
_MODULES: Mapping[str, str] = {
    "product_wide": "products",
    "product_narrow": "products",
    "convolution": "convolution",
    "convolution_narrow": "convolution_narrow",
    "attention": "attention.physics",
    "experts": "experts",
    "rows": "rows",
    "scan": "scan",
}
MODEL_NAMES = tuple(_MODULES)


def model_names_of(kernels: KernelTable) -> np.ndarray[Any, np.dtype[np.object_]]:
    """Which model prices each kernel, shape [n]."""
    from perfcast.cost.learned.families.products import is_wide

    if kernels.family is KernelFamily.PRODUCT:
        return np.where(is_wide(kernels), "product_wide", "product_narrow").astype(object)
    if kernels.family is KernelFamily.CONVOLUTION:
        return np.where(is_wide(kernels), "convolution", "convolution_narrow").astype(object)
    return np.full(len(kernels), kernels.family.value, dtype=object)


def family_of(model_name: str) -> Family:
    """The module with a model's physics."""
    module: Family = import_module(f"perfcast.cost.learned.families.{_MODULES[model_name]}")
    return module


def save_family(fitted: FittedFamily, model_name: str, folder: Path, record: Mapping[str, Any]) -> Path:
    """Write one model with a record of how it was trained; returns the file."""
    content = {"schema": SCHEMA, "model": model_name, "record": dict(record), **_to_json(fitted)}
    path = folder / f"{model_name}.json.gz"
    make_folder(folder)
    write_bytes_atomically(path, gzip.compress(json.dumps(content).encode(), mtime=0), updates=True)
    return path


def load_family(model_name: str, folder: Path | None = None) -> FittedFamily:
    """Read one model; the shipped one by default.

    Raises:
        CalibrationError: The file is missing or not one of ours; a forecast never goes on without it.
    """
    return _load(model_name, folder or WEIGHTS)


@cache
def _load(model_name: str, folder: Path) -> FittedFamily:
    try:
        return _from_json(read_content(model_name, folder), model_name)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise CalibrationError(
            f"{folder / f'{model_name}.json.gz'} does not hold a whole model ({error!r}); train it again: "
            "perfcast train learned --data DIR"
        ) from None


def read_content(model_name: str, folder: Path) -> dict[str, Any]:
    """The file as it is, checked for its schema."""
    path = folder / f"{model_name}.json.gz"
    if not path_exists(path):
        raise CalibrationError(
            f"{path} is missing; reinstall perfcast, or train it: perfcast train learned --data DIR"
        )
    data = read_bytes(path, what="the trained model", error=CalibrationError, is_packed=True)
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CalibrationError(f"{path} is damaged ({error}); reinstall perfcast") from None
    found = (content.get("schema"), content.get("model")) if isinstance(content, dict) else None
    if found != (SCHEMA, model_name):
        raise CalibrationError(
            f"{path} is of another version; train it again: perfcast train learned --data DIR"
        )
    return dict(content)


def _to_json(fitted: FittedFamily) -> dict[str, Any]:
    def key(segment: Segment) -> str:
        return "|".join(segment) + f"#{len(segment)}"

    def spread(table: Quantiles) -> list[Any]:
        return [[key(s), regime, low, high] for (s, regime), (low, high) in table.items()]

    return {
        "scalars": [[device, key(s), v.tolist()] for (device, s), v in fitted.scalars.values.items()],
        "scalar_architectures": {k: list(v) for k, v in fitted.scalars.architectures.items()},
        "scalar_spread": fitted.scalars.spread.tolist(),
        "common": _trees_to_plain(fitted.common),
        "shrink": dict(fitted.shrink),
        "trust": dict(fitted.scalars.trust),
        "apart": dict(fitted.scalars.apart),
        "lean": fitted.lean,
        "coverage": dict(fitted.coverage),
        "acquainted": sorted(fitted.acquainted),
        "sustained": {name: list(shares) for name, shares in fitted.scalars.sustained.items()},
        "known": None if fitted.known is None else _trees_to_plain(fitted.known),
        "architectures": [list(names) for names in fitted.architectures],
        "trained": sorted(list(one) for one in fitted.trained),
        "spread": {
            "known": spread(fitted.spread.known),
            **{kin: spread(fitted.spread.unseen[kin]) for kin in KINS},
        },
        "errors": [list(vars(cell).values()) for cell in fitted.errors],
        "hulls": [
            [
                key(s),
                h.low.tolist(),
                h.high.tolist(),
                list(h.devices),
                np.round(h.shapes, 4).tolist(),
                h.shape_device.tolist(),
            ]
            for s, h in fitted.hulls.items()
        ],
    }


def _trees_to_plain(trees: Trees) -> dict[str, Any] | None:
    return None if trees.columns is None else trees.columns.to_plain()


def _trees_of(plain: Mapping[str, Any] | None) -> Trees:
    return Trees(None if plain is None else TreeColumns.of_plain(plain))


def _from_json(content: Mapping[str, Any], model_name: str) -> FittedFamily:
    def segment(key: str) -> Segment:
        text, _, length = key.rpartition("#")
        return tuple(text.split("|")) if int(length) else ()

    def spread(rows: list[Any]) -> Quantiles:
        return {(segment(key), regime): (low, high) for key, regime, low, high in rows}

    spreads = content["spread"]

    return FittedFamily(
        family=family_of(model_name),
        scalars=DeviceScalars(
            {(device, segment(key)): np.array(v) for device, key, v in content["scalars"]},
            {k: (v[0], v[1], v[2]) for k, v in content["scalar_architectures"].items()},
            np.array(content["scalar_spread"]),
            content["trust"],
            {name: (shares[0], shares[1]) for name, shares in content["sustained"].items()},
            content["apart"],
        ),
        common=_trees_of(content["common"]),
        shrink=content["shrink"],
        known=None if content["known"] is None else _trees_of(content["known"]),
        architectures=tuple((v, a, c) for v, a, c in content["architectures"]),
        trained=frozenset((code, name, dtype) for code, name, dtype in content["trained"]),
        spread=Spread(spread(spreads["known"]), {kin: spread(spreads[kin]) for kin in KINS}),
        lean=content["lean"],
        coverage=content["coverage"],
        acquainted=frozenset(content["acquainted"]),
        hulls={
            segment(key): Hull(
                np.array(low),
                np.array(high),
                tuple(names),
                np.array(shapes).reshape(-1, len(low)),
                np.array(owner, dtype=np.int64),
            )
            for key, low, high, names, shapes, owner in content["hulls"]
        },
        errors=tuple(CellError(*cell) for cell in content["errors"]),
    )
