"""Fitting embedding costs to made-up measurements whose law is known."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perfcast.catalogs.devices import load_device
from perfcast.core.embedding.lookup import EmbeddingLookup
from perfcast.core.embedding.reuse import uniform_reuse, zipf_reuse
from perfcast.core.machine.hardware import Device
from perfcast.cost.embedding.learned import (
    LearnedEmbeddingPricer,
    load_embedding_weights,
    load_learned_pricer,
    save_embedding_weights,
)
from perfcast.cost.embedding.model import PHASES, price_lookups
from perfcast.cost.embedding.select import embedding_pricer
from perfcast.errors import CalibrationError, PlanError, UnknownNameError
from perfcast.evidence.train.embedding.train import fit_weights, train_embedding
from perfcast.evidence.validate.embedding import score, validate_embedding
from perfcast.evidence.validate.row import Row
from perfcast.measure.embedding.cases import GROUPS
from perfcast.measure.embedding.samples import EmbeddingSample

CPU: Device = replace(load_device("t4"), name="cpu", vendor="cpu")


def _samples(count: int, seed: int) -> tuple[EmbeddingSample, ...]:
    """Cases that take 100 µs, and 1 µs a bag, 20 ns a lookup and 200 ns a different row."""
    rng = np.random.default_rng(seed)
    samples = []
    for _ in range(count):
        lookups = []
        for _ in range(int(rng.integers(1, 4))):
            rows, pooling = int(10 ** rng.uniform(2.5, 6)), float(rng.choice([1, 4, 16]))
            batch = int(rng.choice([128, 512, 2048]))
            drawn = round(batch * pooling)
            reuse = uniform_reuse(rows, drawn) if rng.random() < 0.5 else zipf_reuse(rows, drawn, 1.2)
            lookups.append(EmbeddingLookup(rows, 32, batch, pooling, reuse=reuse))
        seconds = 1e-4 + sum(
            1e-6 * at.batch_size + 20e-9 * at.num_lookups + 200e-9 * at.reuse.num_rows
            for at in lookups
            if at.reuse
        )
        names = tuple("t" for _ in lookups)
        samples.append(EmbeddingSample(tuple(lookups), names, names, "sgd", seconds, 2 * seconds))
    return tuple(samples)


SAMPLES = {GROUPS[0]: _samples(60, 0), GROUPS[1]: (), GROUPS[2]: (), GROUPS[3]: _samples(20, 1)}


@pytest.fixture(scope="module")
def pricer() -> Iterator[LearnedEmbeddingPricer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("perfcast.evidence.train.embedding.fit._STEPS", 300)
        yield LearnedEmbeddingPricer(fit_weights(SAMPLES, "sgd", num_members=1), is_measured_here=True)


def test_a_law_that_adds_up_is_found_again(pricer: LearnedEmbeddingPricer):
    for phase in PHASES:
        errors = [
            abs(price_lookups(pricer, sample.lookups, phase).seconds / sample.seconds(phase) - 1)
            for sample in SAMPLES[GROUPS[3]]
        ]
        assert np.median(errors) < 0.08
    assert pricer.relative_spread < 0.15
    steps = [net.step_seconds for net in pricer.weights.members["forward"]]
    assert steps == pytest.approx([1e-4], rel=0.3)
    assert pricer.provenance == "interpolated"


def test_weights_survive_the_file(pricer: LearnedEmbeddingPricer, tmp_path: Path):
    path = tmp_path / "cpu.json"
    save_embedding_weights(path, {"sgd": pricer.weights}, {"machine": "made up"})
    again = load_learned_pricer(CPU, "sgd", path)
    lookups = SAMPLES[GROUPS[3]][0].lookups
    for phase in PHASES:
        expected = price_lookups(pricer, lookups, phase).seconds
        assert price_lookups(again, lookups, phase).seconds == pytest.approx(expected, rel=1e-4)
    with pytest.raises(UnknownNameError, match="sgd"):
        load_learned_pricer(CPU, "adagrad", path)
    with pytest.raises(PlanError, match="processors"):
        load_learned_pricer(load_device("t4"), "sgd", path)


@pytest.mark.parametrize("content", ["", "{}", '{"schema": 99}', "[]"])
def test_another_file_is_refused(tmp_path: Path, content: str):
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(CalibrationError, match=r"bad\.json"):
        load_embedding_weights(path)


def test_a_processor_is_priced_by_what_was_learned_and_a_gpu_by_its_datasheet():
    assert embedding_pricer(CPU).name == "learned"
    assert embedding_pricer(load_device("t4")).name == "heuristic"
    with pytest.raises(UnknownNameError, match="embedding cost"):
        embedding_pricer(CPU, name="guess")


def _write(path: Path) -> Path:
    lines = []
    for group, samples in SAMPLES.items():
        for seed, sample in enumerate(samples):
            lookups = [
                {"num_rows": at.num_rows, "dim": at.dim, "batch_size": at.batch_size, "pooling": at.pooling,
                 "dtype": "fp32", "rows": at.reuse.rows, "lookups": at.reuse.lookups}
                for at in sample.lookups if at.reuse
            ]  # fmt: skip
            record = {"machine": "made up", "pass": 0, "group": group, "seed": seed, "optimizer": "sgd",
                      "names": sample.names, "distributions": sample.distributions, "lookups": lookups,
                      "forward": [sample.forward_seconds] * 2, "backward": [sample.backward_seconds] * 2,
                      "probes": [[1e-4, 2e-4, 1e-4]] * 2}  # fmt: skip
            lines.append(json.dumps(record))
    path.write_text("\n".join(lines) + "\n")
    return path


def test_training_writes_weights_and_validation_shows_what_reuse_is_worth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("perfcast.evidence.train.embedding.fit._STEPS", 120)
    data, output = _write(tmp_path / "m.jsonl"), tmp_path / "w.json"
    written, record = train_embedding(data, output, num_members=1)
    assert written == output
    assert (record.machine, record.num_cases) == ("made up", {"sgd": 60})
    result, scores = validate_embedding(data, num_members=1)
    assert len(result.rows) == 2 * 2 * (60 + 20)
    by_name = {(s.predictor, s.phase): s.gmae for s in scores if s.group == GROUPS[3]}
    for phase in PHASES:
        assert by_name["learned", phase] < by_name["blind", phase]


def test_the_geometric_mean_of_errors_is_that_of_the_formula():
    rows = [
        Row(suite="embedding", table="fit", row=i, device="d", catalog_device=None, predictor="learned",
            operation="forward", mode="sgd", columns={"group": "fit"}, predicted_seconds=predicted,
            predicted_seconds_low=0.9, predicted_seconds_high=1.2, measured_seconds=1.0)
        for i, predicted in enumerate((1.1, 1.4))
    ]  # fmt: skip
    (only,) = score(rows)
    assert only.gmae == pytest.approx(np.sqrt(0.1004 * 0.4004))
    assert only.mape == pytest.approx(0.25)
    assert only.coverage == 1.0
