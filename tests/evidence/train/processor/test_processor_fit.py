from __future__ import annotations

import numpy as np

from perfcast.cost.processor.work import CLASSES
from perfcast.evidence.train.processor.fit import TERMS, fit_processor
from perfcast.evidence.train.processor.write import format_constants


def test_steps_of_known_constants_are_forecast_with_families_left_out():
    rng = np.random.default_rng(1)
    true = rng.uniform(0.5, 3.0, (len(TERMS), len(CLASSES)))
    columns = rng.lognormal(-8, 1, (120, len(TERMS), len(CLASSES)))
    seconds = (columns * true).sum(axis=(1, 2))
    fitted = fit_processor(columns, seconds, [f"family {i % 12}" for i in range(120)])
    assert np.abs(fitted.errors).mean() < 0.1
    assert fitted.spread < 1.3
    text = format_constants(fitted, ["i9-10940x"], 12)
    assert 'measured = ["i9-10940x"]' in text
    assert all(f"[{term}]" in text for term in TERMS)
