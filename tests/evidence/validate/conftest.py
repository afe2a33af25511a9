from __future__ import annotations

from pathlib import Path

import pytest

from made_up_kernels import training_rows
from perfcast.cost.learned.store import family_of, save_family
from perfcast.evidence.train.learned.fit import fit_family


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small models of products and row kernels, fitted to made-up measurements."""
    folder = tmp_path_factory.mktemp("weights")
    for model in ("product_narrow", "product_wide", "rows"):
        rows = training_rows(model, count=60)
        record = {"num_rows": len(rows.seconds), "devices": ["t4"], "tables": ["linear_test"], "left_out": []}
        save_family(fit_family(family_of(model), rows), model, folder, record)
    return folder
