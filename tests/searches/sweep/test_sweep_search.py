"""Sweeps whose cells are searched for plans."""

import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.errors import InputError, PlanError
from perfcast.prediction.step.predict import predict_plan
from perfcast.searches.space.fixed import KEYS
from perfcast.searches.sweep.cells import Cell, expand_grid
from perfcast.searches.sweep.plans import PlanSearch, open_plan_search, plan_sweep
from perfcast.searches.sweep.run import run_sweep

FEW = {
    "recompute": "none",
    "schedule": "1f1b",
    "cp": 1,
    "mbs": 1,
    "zero": 1,
    "sp": 0,
    "pp": 1,
    "offload": "none",
}
SEARCH = PlanSearch(cost_model="roofline", fixed=FEW, num_best=2)


def settings_of(search):
    return plan_sweep(search).settings


def test_a_cell_gives_its_fastest_plans_with_the_closed_forms_time():
    rows = open_plan_search(settings_of(SEARCH))(Cell("llama3-8b", "dgx-h100:8", 8, 1024))
    assert [row["step_seconds"] for row in rows] == sorted(row["step_seconds"] for row in rows)
    assert rows[0]["num_plans"] >= rows[0]["num_valid"] >= len(rows)
    best = {name: rows[0][key] for key, name in KEYS.items()}
    plan = Plan(**best, num_micro_batches=8 // int(rows[0]["dp"]))
    forecast = predict_plan(
        "llama3-8b", load_cluster("dgx-h100:8"), plan, training=Training(framework="megatron"),
        sequence_length=1024, cost_model="roofline", method="closed_form", recommendations=False,
    )  # fmt: skip
    assert rows[0]["step_seconds"] == pytest.approx(forecast.step_seconds, rel=1e-9)


def test_a_sweep_of_plans_says_where_none_fits_and_where_none_is_possible(tmp_path):
    # 70 · 10⁹ parameters · 18 bytes are twice what eight devices of 80 GB hold; eight ranks of tp and dp
    # with twelve heads are dp 2 at least, which does not divide seven sequences.
    cells = [Cell("llama3-70b", "dgx-h100:8", 8, 1024), Cell("gpt2", "dgx-h100:8", 7, 1024)]
    table = run_sweep(cells, plan_sweep(SEARCH), tmp_path).table
    assert table["place"].to_list() == [0, 0]
    assert table["outcome"][0].startswith("no plan is left")
    assert table["outcome"][1].startswith("no plan for 8 devices")
    assert table["step_seconds"].null_count() == 2


def test_nothing_that_fits_says_what_the_smallest_takes():
    search = PlanSearch(cost_model="roofline", fixed=SEARCH.fixed, max_memory_fraction=0.01)
    with pytest.raises(PlanError, match=r"no plan is left: 'at most 1 % of .*' excludes all"):
        open_plan_search(settings_of(search))(Cell("llama3-8b", "dgx-h100:8", 8, 1024))


def test_an_unknown_model_ends_the_sweep_by_name(tmp_path):
    with pytest.raises(InputError, match="lama3-8 on dgx-h100:8, batch 8, sequence 1024: unknown model"):
        run_sweep(expand_grid(["lama3-8"], ["dgx-h100:8"], [8], [1024]), plan_sweep(SEARCH), tmp_path)
