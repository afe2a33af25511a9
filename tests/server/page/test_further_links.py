"""Questions that follow from one that was answered."""

from __future__ import annotations

import pytest

pytest.importorskip("nicegui", reason="the page needs perfcast[web]")

from perfcast.server.page.further import further_links
from perfcast.verbs.question import question_of
from perfcast.verbs.spelled import question_of_address

VERBS = {"memory": "memory", "search": "search", "scale": "scale", "forecast": "predict"}


def links_of(verb: str, **plain: object) -> dict[str, object]:
    found = {}
    for _, address in further_links(question_of(verb, plain)):
        view, _, query = address.removeprefix("/").partition("?")
        found[view] = question_of_address(VERBS[view], query)
    return found


def test_a_forecast_under_a_plan_goes_on_to_its_memory_its_best_plan_and_more_devices():
    asked = {"model": "gpt2", "plan": "tp=2,mbs=1", "batch_size": 64, "sequence_length": 512, "compile": True}
    found = links_of("predict", cluster="dgx-h100:16", **asked)
    assert (found["memory"].device, found["memory"].devices) == ("h100-sxm", 16)
    assert found["memory"].plan == "tp=2,mbs=1"
    assert (found["search"].clusters, found["search"].batch_sizes) == (("dgx-h100:16",), (64,))
    assert found["search"].sequence_lengths == (512,)
    assert found["scale"].devices == (16, 32, 64, 128)
    assert found["scale"].compile


def test_devices_without_a_cluster_are_of_the_one_that_a_forecast_takes():
    found = links_of("predict", model="gpt2", device="h100-sxm", devices=8, batch_size=64)
    assert found["search"].clusters == ("dgx-h100:8",)


def test_one_device_goes_on_to_its_memory_alone_and_memory_to_its_time():
    assert set(links_of("predict", model="gpt2", device="h100-sxm", batch_size=8)) == {"memory"}
    found = links_of("memory", model="gpt2", device="h100-sxm", batch_size=8, fit=True)
    assert found["forecast"].batch_size == 8


def test_a_place_that_the_catalog_does_not_know_leads_nowhere():
    assert links_of("predict", model="gpt2", cluster="my.toml:8") == {}
