"""Fitting what no program states, on made-up tables that were filled with a known figure."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from memory_tables import GIB, GOLDEN, SIMUMAX, write_tables

from perfcast.core.forecast.footprint import Footprint
from perfcast.errors import InputError
from perfcast.evidence.validate.memory import fit as memory_fit
from perfcast.evidence.validate.memory.fit import MemoryFit, fit_memory, is_fitting_half
from perfcast.evidence.validate.memory.forecast import forecast_cases
from perfcast.evidence.validate.memory.rows import read_memory_cases
from perfcast.evidence.validate.memory.widths import WidthRow, fit_spreads, spreads_without_each
from perfcast.frameworks.load import load_training_profile, parse_framework
from perfcast.memory_use.footprint import estimate_footprint
from perfcast.memory_use.footprint.spread import parse_spreads

PLANTED = 150e6
#: Reserved over allocated, as the one line with both says.
RESERVED = 1.25
LINES = [GOLDEN | {"layers": 2 + 2 * n, "hidden": 256, "ffn_hidden": 1024} for n in range(48)]
SHORT = SIMUMAX | {"layers": 2, "notes": "case=x_cef"}
#: The first line of the table that is fitted on.
LINE_OF_RESERVED = next(n for n in range(20) if is_fitting_half(f"peak_memory:{n}"))


@pytest.fixture(autouse=True)
def few_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_fit, "_MOST_EVALUATIONS", 40)


def planted(*arguments: Any, device: Any = None) -> Footprint:
    """The closed form of a program that keeps ``PLANTED`` bytes of its own."""
    training = arguments[2]
    own = load_training_profile(training.framework)
    assert own.memory is not None
    profile = replace(own, memory=replace(own.memory, other_bytes=PLANTED))
    return estimate_footprint(*arguments, device=device, profile=profile)


def tables(place: Path, other_half: int = 1) -> Path:
    """Peaks of the planted program, those of the half that is not fitted on times a factor."""
    golden = [
        line | {"mem_max_allocated_bytes": peak * (1 if is_fitting_half(label) else other_half)}
        for line, (label, peak) in zip(
            LINES, forecasts(place / "a", "megatron_golden_values", LINES), strict=True
        )
    ]
    ((_, peak),) = forecasts(place / "b", "peak_memory", [SHORT])
    notes = f"case=x_cef; real_reserved_gib={RESERVED * peak / GIB}"
    both = [SHORT | {"peak_mem_gb": None, "notes": ""}] * LINE_OF_RESERVED
    both.append(SHORT | {"peak_mem_gb": peak / GIB, "notes": notes})
    return write_tables(place / "c", megatron_golden_values=golden, peak_memory=both)


def forecasts(place: Path, table: str, lines: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """Name and planted peak of every line."""
    cases = [
        case
        for case in read_memory_cases([write_tables(place, **{table: lines})])
        if case.metric == "allocated"
    ]
    answers = forecast_cases(cases, planted)
    return [(case.label, answer.num_bytes or 0) for case, answer in zip(cases, answers, strict=True)]


@pytest.fixture(scope="module")
def fit(tmp_path_factory: pytest.TempPathFactory) -> tuple[MemoryFit, list[str]]:
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_fit, "_MOST_EVALUATIONS", 40)
        found = fit_memory([tables(tmp_path_factory.mktemp("fit"), other_half=3)], said.append)
    return found, said


def test_a_line_is_fitted_on_where_the_crc_32_of_its_name_is_even():
    labels = [f"training:{row}" for row in range(1000)]
    halves = [is_fitting_half(label) for label in labels]
    assert halves == [zlib.crc32(label.encode()) % 2 == 0 for label in labels]
    assert 450 < sum(halves) < 550


def test_a_planted_figure_is_recovered_whatever_the_other_half_says(fit: tuple[MemoryFit, list[str]]):
    found, _ = fit
    assert found.figures.keys() == {"megatron"}
    assert found.figures["megatron"]["other_bytes"] == pytest.approx(PLANTED, rel=0.02)


def test_how_many_peaks_are_fitted_is_said(fit: tuple[MemoryFit, list[str]]):
    half = sum(is_fitting_half(f"megatron_golden_values:{row}") for row in range(len(LINES)))
    assert fit[1] == [f"megatron: {half + 1} measured peaks"]


def test_what_is_measured_as_forecast_has_no_spread_and_the_reserve_its_ratio(tmp_path: Path):
    found = fit_memory([tables(tmp_path)]).spread
    assert found.keys() == {"megatron", "any", "captured", "serving"}
    row = np.array([[5e9, 5e9, 1e9]])
    for name in ("megatron", "any"):
        assert found[name].below.shares(row)[0] == pytest.approx(0, abs=0.02)
        assert found[name].above.shares(row)[0] == pytest.approx(0, abs=0.02)
    for spread in found.values():
        assert spread.reserved == spread.reserved_high == pytest.approx(RESERVED, rel=0.01)


def test_a_side_holds_what_it_was_fitted_to_but_for_its_tail():
    rows = [
        WidthRow("fsdp", "one", f"fold {n % 4}", np.array([1e9, 1e9, 0.0]), 1 + 0.3 * (n + 1) / 101)
        for n in range(100)
    ]
    spread = fit_spreads(rows, (), (1.0, 1.1))["any"]
    inside = [row.ratio <= 1 + spread.above.shares(row.num_bytes[None])[0] for row in rows]
    assert 0.95 <= np.mean(inside) <= 0.99


def test_a_fold_left_out_decides_no_width_of_its_own():
    rows = [
        WidthRow("fsdp", "s", f"fold {n % 2}", np.array([1e9, 1e9, 0.0]), 1.0 + 0.5 * (n % 2))
        for n in range(80)
    ]
    without = spreads_without_each(rows, (), (1.0, 1.1))
    wide, narrow = (without[f"fold {n}"]["any"].above.shares(rows[0].num_bytes[None])[0] for n in (0, 1))
    assert narrow < 0.1 < 0.4 < wide


def test_what_is_written_is_read_back(fit: tuple[MemoryFit, list[str]], tmp_path: Path):
    found, _ = fit
    spread, profile = found.write(tmp_path)
    assert parse_spreads(spread.read_text(encoding="utf-8")) == found.spread
    training = parse_framework(profile).training
    assert training is not None
    assert training.memory is not None
    assert training.memory.other_bytes == pytest.approx(found.figures["megatron"]["other_bytes"])
    assert training.kernels == load_training_profile("megatron").kernels


def test_too_few_measurements_are_refused(tmp_path: Path):
    with pytest.raises(InputError, match="20 measured peaks"):
        fit_memory([write_tables(tmp_path / "few", megatron_golden_values=LINES[:6])])
    with pytest.raises(InputError, match="no measured reserve"):
        fit_memory([write_tables(tmp_path / "apart", megatron_golden_values=LINES)])
