from __future__ import annotations

import pytest

from perfcast.cost.learned.card import model_card
from perfcast.cost.learned.store import MODEL_NAMES, WEIGHTS

MEGABYTE = 10**6


@pytest.fixture(scope="module")
def card() -> dict:
    return model_card()


def test_the_shipped_card_names_every_model_with_its_data(card: dict):
    assert [model["name"] for model in card["models"]] == list(MODEL_NAMES)
    for model in card["models"]:
        assert model["record"]["num_rows"] > 1000
        assert model["record"]["devices"]
        assert model["record"]["tables"]
        assert model["record"]["left_out"] == []


def test_every_operation_states_its_error_on_rows_held_out(card: dict):
    for model in card["models"]:
        assert any(row["known_error"] is not None for row in model["errors"]), model["name"]


def test_errors_of_devices_left_out_stand_beside_those_of_known_ones(card: dict):
    (narrow,) = [model for model in card["models"] if model["name"] == "product_narrow"]
    (linear,) = [r for r in narrow["errors"] if (r["operation"], r["dtype"]) == ("linear", "bf16")]
    assert 0 < linear["known_error"] < linear["unseen_error"] < 1
    assert linear["unseen_error"] < linear["vendor_error"] < 1
    assert 0 < linear["family_error"] < 1


def test_the_shipped_weights_are_small_and_no_pickles():
    files = [path for path in WEIGHTS.iterdir() if path.is_file()]
    assert {path.name for path in files} == {f"{name}.json.gz" for name in MODEL_NAMES}
    assert sum(path.stat().st_size for path in files) < 8 * MEGABYTE


def test_where_devices_were_left_out_nine_in_ten_lie_in_an_interval_that_others_made(card: dict):
    for model in card["models"]:
        for kin, share in model["coverage"].items():
            assert 0.84 <= share <= 1.0, (model["name"], kin)
