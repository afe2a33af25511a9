from __future__ import annotations

from dataclasses import replace

import pytest

from perfcast.catalogs.devices import load_device
from perfcast.cost.learned.model import LearnedCost
from perfcast.errors import PlanError, UnknownNameError
from perfcast.prediction import Request
from perfcast.prediction.one_device.host import check_host
from perfcast.prediction.one_device.predict import predict_one_device
from perfcast.prediction.request.one_device import OneDeviceRequest

SMALL = Request(model="bert-base-uncased", mode="prefill", sequence_length=32, dtype="fp32")


def asked(**changes: object) -> OneDeviceRequest:
    return OneDeviceRequest(workload=replace(SMALL, **changes), device="h100-sxm")  # type: ignore[arg-type]


def test_a_small_step_takes_what_its_host_takes():
    found = predict_one_device(asked())
    assert found.host is not None
    assert found.host.title.startswith("Intel Xeon Platinum 8480C")
    assert found.step_seconds == pytest.approx(found.host.busy_seconds, rel=0.05)
    assert found.step_seconds_low < found.step_seconds < found.step_seconds_high


def test_graphs_are_no_slower_than_compiled_and_that_than_eager():
    steps = [
        predict_one_device(asked(**changes)).step_seconds
        for changes in ({"cuda_graphs": True, "compile": True}, {"compile": True}, {})
    ]
    assert steps == sorted(steps)


def test_a_slow_host_makes_a_small_step_longer_and_a_graph_saves_what_it_says():
    slow, fast = (predict_one_device(asked(host=name)) for name in ("slow", "fast"))
    assert slow.step_seconds > 2 * fast.step_seconds
    assert slow.host is not None
    graphed = predict_one_device(asked(host="slow", cuda_graphs=True))
    assert graphed.step_seconds == pytest.approx(slow.step_seconds - slow.host.saved_by_graphs_seconds)


def test_a_host_that_nobody_knows_and_one_without_kernels_are_refused():
    with pytest.raises(UnknownNameError, match="epyc-7742"):
        predict_one_device(asked(host="epyc"))
    with pytest.raises(PlanError, match="knows no host"):
        predict_one_device(replace(asked(host="slow"), cost_model="roofline"))
    processor = replace(load_device("h100-sxm"), vendor="cpu")
    with pytest.raises(PlanError, match="is a processor"):
        check_host(replace(SMALL, cuda_graphs=True), processor, LearnedCost())
