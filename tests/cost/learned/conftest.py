from __future__ import annotations

from pathlib import Path

import pytest

from made_up_kernels import training_rows
from perfcast.cost.learned.predictor import FittedFamily
from perfcast.cost.learned.store import family_of, load_family, save_family
from perfcast.evidence.train.learned.fit import fit_family

MODELS = ("product_wide", "product_narrow", "rows", "convolution", "attention")


@pytest.fixture(scope="session")
def fitted() -> dict[str, FittedFamily]:
    """Small models of the families that captured graphs need, fitted to made-up measurements."""
    return {model: fit_family(family_of(model), training_rows(model, count=60)) for model in MODELS}


@pytest.fixture(scope="session")
def weights(fitted: dict[str, FittedFamily], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with these models."""
    folder = tmp_path_factory.mktemp("weights")
    for model, family in fitted.items():
        save_family(family, model, folder, {})
    save_family(load_family("convolution_narrow"), "convolution_narrow", folder, {})
    return folder
