"""What JSON holds of serving: finite, bounded, by one schema."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from perfcast.core.forecast.serving_sweep import ServingSweep, SweptPoint
from perfcast.core.plan import Plan
from perfcast.core.serving.deployment import Aggregated, Disaggregated, Pool
from perfcast.core.serving.load import ClosedLoad, Load, OpenLoad, RecordedLoad, SaturatedLoad
from perfcast.core.serving.outcome import Occupancy
from perfcast.report.answers import schema_of, to_plain, write_plain
from perfcast.report.data.serving.forecast import LoadData, data_of, load_of, occupancy_of, pools_of
from perfcast.report.data.serving.sweep import sweep_data_of
from serving_forecasts import serving_forecast, sweep, with_both_forms


def test_every_key_of_an_answer_is_in_its_schema():
    answer = json.loads(write_plain(to_plain(data_of(with_both_forms()))))
    assert answer.keys() == schema_of("serving")["properties"].keys()
    assert answer["other"]["method"] == "closed_form"
    assert answer["answer"]["run"]["num_requests"] == 200


def test_a_long_occupancy_is_thinned_out_and_keeps_its_end():
    rows = np.arange(12_345)
    found = occupancy_of(Occupancy(rows.astype(float), rows, rows, rows))
    assert len(found.seconds) <= 501
    assert (found.seconds[0], found.seconds[-1], found.running[-1]) == (0.0, 12_344.0, 12_344)
    none = np.zeros(0, dtype=np.int64)
    assert occupancy_of(Occupancy(np.zeros(0), none, none, none)).seconds == ()


@pytest.mark.parametrize(
    ("load", "data"),
    [
        (ClosedLoad(3), LoadData(kind="closed", concurrency=3)),
        (OpenLoad(2.0, 0.5), LoadData(kind="open", requests_per_second=2.0, burstiness=0.5)),
        (RecordedLoad(), LoadData(kind="recorded")),
        (SaturatedLoad(), LoadData(kind="saturated")),
    ],
)
def test_a_load_says_of_which_kind_it_is(load: Load, data: LoadData):
    assert load_of(load) == data


def test_pools_have_roles():
    pool = Pool(Plan(tensor_parallel=2), 3)
    assert [(each.role, each.num_devices) for each in pools_of(Aggregated(pool))] == [("all", 6)]
    assert [each.role for each in pools_of(Disaggregated(pool, pool))] == ["prefill", "decode"]


def test_a_sweep_keeps_points_without_a_forecast():
    found = sweep_data_of(sweep())
    assert json.loads(write_plain(to_plain(found))).keys() == schema_of("serving-sweep")["properties"].keys()
    skipped = SweptPoint({"concurrency": "9"}, None, "too many")
    (point,) = sweep_data_of(ServingSweep((skipped,))).points
    assert (point.forecast, point.skipped) == (None, "too many")


def test_an_answer_without_a_run_has_none():
    assert data_of(replace(serving_forecast(), played=None)).answer.run is None
