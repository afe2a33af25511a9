from __future__ import annotations

import pytest

from perfcast.cost.host.costs import load_host_costs, parse_host_costs
from perfcast.evidence.train.host.fit import FittedHost, WarmCosts, describe, format_costs, warm_costs
from perfcast.units import MICRO


def node(target: str, microseconds: float, mode: str = "inference") -> dict[str, object]:
    return {
        "device": "NVIDIA_A100-PCIE-40GB", "target": target, "forward_ms": microseconds / 1e3, "mode": mode,
    }  # fmt: skip


def test_what_lies_between_two_events_with_nothing_is_taken_off():
    """6 µs of nothing: a view of 8 costs 2, a module of 10 costs 4, a fill of 16.5 less its kernel 9."""
    nodes = [
        node("size", 6.0),
        node("view", 8.0),
        node("bert.encoder.layer.0.dropout", 10.0),
        node("<built-in method ones of type object at 0x7f>", 16.5),
        node("view", 80.0, mode="train"),
        node("bert.encoder.layer.0.dense", 500.0),
    ]
    (found,) = warm_costs(nodes).values()
    assert found.view == pytest.approx(2 * MICRO)
    assert found.module_call == pytest.approx(4 * MICRO)
    assert found.light == pytest.approx(9 * MICRO)


def test_a_device_without_every_kind_has_no_costs():
    assert warm_costs([node("size", 6.0), node("view", 8.0)]) == {}


def test_the_file_that_is_written_holds_what_was_fitted():
    warm = WarmCosts(view=3 * MICRO, module_call=5 * MICRO, light=2 * MICRO)
    fitted = FittedHost(warm, {"l4": 2.0}, program=1.5)
    costs, shipped = parse_host_costs(format_costs(fitted)), load_host_costs()
    assert costs.eager.view == pytest.approx(1.5 * 3 * MICRO)
    assert costs.eager.module_call == pytest.approx(1.5 * 5 * MICRO)
    assert costs.eager.operators["light"] == pytest.approx(1.5 * 2 * MICRO)
    relative = costs.eager.operators["convolution"] / costs.eager.operators["light"]
    usual = shipped.eager.operators["convolution"] / shipped.eager.operators["light"]
    assert relative == pytest.approx(usual, rel=0.01)
    assert costs.compiled == shipped.compiled
    assert "1.50 times" in describe(fitted)[1]
