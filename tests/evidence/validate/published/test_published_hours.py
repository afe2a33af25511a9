from pathlib import Path
from typing import Any

import polars as pl
import pytest

from perfcast.core.model.weights import count_parameters
from perfcast.cost.roofline import Roofline
from perfcast.evidence.validate.published.hours import hours_rows, load_setups, parse_tokens, read_hours_cases
from perfcast.evidence.validate.row import Row
from perfcast.evidence.validate.runs.lines import UnreadableError
from perfcast.units import GIGA

RUN: dict[str, Any] = {
    "id": 1, "source": "a card", "model": "Pythia-1.4B", "params_b": 1.4, "accelerator": "A100-40GB",
    "num_accelerators": 64.0, "tokens": "299.9B", "accelerator_hours": 7120.0, "notes": "",
}  # fmt: skip


def forecast(folder: Path, *lines: dict[str, Any]) -> tuple[Row, ...]:
    pl.DataFrame(list(lines)).write_csv(folder / "gpu_hours.csv")
    rows, _ = hours_rows(read_hours_cases([folder]), ["closed_form"], Roofline())
    return rows


def test_a_run_is_forecast_in_seconds_of_all_its_devices(tmp_path: Path) -> None:
    (row,) = forecast(tmp_path, RUN)
    assert row.measured_seconds == 7120 * 3600
    assert row.predicted_seconds is not None
    assert 0.2 < row.predicted_seconds / row.measured_seconds < 1.5
    assert 0.9 < row.columns["goodput"] <= 1.0
    assert "Pythia" in row.columns["setup"]


def test_twice_the_tokens_take_twice_the_hours(tmp_path: Path) -> None:
    once, twice = forecast(tmp_path, RUN | {"tokens": "100B"}, RUN | {"tokens": "200B"})
    assert once.predicted_seconds is not None
    assert twice.predicted_seconds == pytest.approx(2 * once.predicted_seconds, rel=1e-3)


def test_what_is_missing_is_a_reason(tmp_path: Path) -> None:
    rows = forecast(
        tmp_path,
        RUN | {"num_accelerators": None},
        RUN | {"model": "A-model-of-ours"},
        RUN | {"accelerator": "abacus"},
        RUN | {"model": "BLOOM-176B", "num_accelerators": 100.0},
        RUN | {"tokens": "many"},
    )
    assert [row.skipped for row in rows] == [
        "incomplete: num_accelerators", "incomplete: model", "unknown device", "unsupported plan",
        "impossible value",
    ]  # fmt: skip


def test_hours_do_not_move_a_forecast(tmp_path: Path) -> None:
    (before,) = forecast(tmp_path, RUN)
    (after,) = forecast(tmp_path, RUN | {"accelerator_hours": 1.0, "notes": "fast"})
    assert before.predicted_seconds == after.predicted_seconds


def test_sizes_multiply_up_to_the_parameters_in_the_name() -> None:
    for name, setup in load_setups().items():
        stated = name.replace(" replica", "").partition("-A37B")[0].replace(" ", "-").rpartition("-")[2]
        billions = float(stated[:-1]) * (0.001 if stated.endswith("M") else 1.0)
        assert count_parameters(setup.model) / GIGA == pytest.approx(billions, rel=0.06), name


def test_tokens_are_read_with_their_unit() -> None:
    assert [parse_tokens(text) for text in ("1.4T", "299.9B", "15T+")] == [1.4e12, 299.9e9, 15e12]
    with pytest.raises(UnreadableError, match="tokens"):
        parse_tokens("")
    with pytest.raises(UnreadableError, match="impossible"):
        parse_tokens("many")
