"""A sweep's table is readable on narrow and wide terminals."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from perfcast.core.plan import Plan
from perfcast.report.documents.search.sweep import document_of
from perfcast.searches.space.fixed import KEYS
from perfcast.searches.sweep.run import SweepProgress, SweepResult
from rendered import text_of

PLAN = Plan(data_parallel=32, tensor_parallel=2, sequence_parallel=True, pipeline_parallel=2,
            virtual_stages_per_rank=2, schedule="interleaved", num_micro_batches=8, recompute="full",
            recompute_layers=1, stage_layers=(7, 8, 9, 8))  # fmt: skip
WORDS = "tp=2 pp=2 dp=32 vp=2 recompute=full recompute_layers=1 stages=7/8/9/8 mbs=1"


def _row(model: str, cluster: str, plan: Plan | None = PLAN) -> dict[str, Any]:
    cell = {"model": model, "cluster": cluster, "global_batch_size": 256, "sequence_length": 8192}
    figures = {
        "value": 1.5e-6, "step_seconds": 12.5, "step_seconds_low": 12.0, "step_seconds_high": 13.0,
        "tokens_per_second": 167772.16, "mfu": 0.456, "device_memory_bytes": 70 * 2**30,
    }  # fmt: skip
    if plan is None:
        return {**cell, **dict.fromkeys([*KEYS, *figures]), "place": 0, "outcome": "too little memory"}
    keys = {key: getattr(plan, name) for key, name in KEYS.items()}
    keys["stages"] = "/".join(map(str, plan.stage_layers))
    return {**cell, **keys, **figures, "place": 1, "outcome": ""}


def _printed(rows: list[dict[str, Any]], width: int, objective: str = "time") -> list[str]:
    progress = SweepProgress(**{field.name: 2 for field in fields(SweepProgress)})
    found = SweepResult(pl.DataFrame(rows, infer_schema_length=None), progress, Path("store"))
    return [line.rstrip() for line in text_of(document_of(found, objective), width).splitlines()]


@pytest.mark.parametrize("width", [80, 120])
def test_a_cell_is_a_line_of_figures_and_a_line_with_its_plan(width):
    lines = _printed([_row("llama3-8b", "dgx-h100:64"), _row("llama3-70b", "gb200-nvl72:1152")], width)
    figures = [line.split() for line in lines if line.startswith("llama3")]
    assert figures[0] == "llama3-8b dgx-h100:64 256 8,192 12.5 s 4.0 % 45.6 % 70.0 GiB".split()
    assert [row[1] for row in figures] == ["dgx-h100:64", "gb200-nvl72:1152"]
    assert " ".join(" ".join(lines).split()).count(f"168 k tokens/s · {WORDS}") == 2
    assert max(map(len, lines)) <= width


def test_files_are_shown_by_their_ends():
    lines = _printed([_row("models/a/config.json", "clusters/with-a-long-name.toml:1024")], 80)
    row = next(line for line in lines if line.startswith("a "))
    assert row.split()[1] == "…-name.toml:1024"


def test_a_figure_without_a_column_stands_before_the_plan():
    assert f"  $1.5 per million tokens · 168 k tokens/s · {WORDS}" in _printed(
        [_row("m", "c")], 120, "dollars-per-token"
    )


def test_a_cell_without_a_plan_says_why():
    lines = _printed([_row("m", "c:8", None)], 80)
    assert "· m, c:8, 256, 8192: too little memory" in lines
    assert not any("MFU" in line for line in lines)
