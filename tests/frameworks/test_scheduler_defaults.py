"""Defaults of schedulers by version and device."""

from __future__ import annotations

import pytest

from perfcast.catalogs.devices import load_device
from perfcast.errors import InputError
from perfcast.frameworks.serving import load_serving_profiles, parse_version


def test_every_framework_that_serves_has_a_scheduler():
    assert set(load_serving_profiles()) == {"vllm", "sglang", "trtllm"}


def test_vllm_takes_more_on_devices_with_more_memory_but_not_on_an_a100():
    vllm = load_serving_profiles()["vllm"]
    large, a100 = (vllm.scheduler(load_device(name)) for name in ("h100-sxm", "a100-sxm-80gb"))
    assert (large.max_sequences, large.max_step_tokens) == (1024, 8192)
    assert (a100.max_sequences, a100.max_step_tokens) == (256, 2048)
    assert large.schedules_ahead
    assert a100.schedules_ahead


def test_versions_differ():
    vllm, device = load_serving_profiles()["vllm"], load_device("h100-sxm")
    old = vllm.scheduler(device, "0.2.1")
    assert (old.policy, old.max_step_tokens, old.chunks_prompts) == ("vllm_v0", 2560, False)
    assert not vllm.scheduler(device, "0.11.2").schedules_ahead
    assert vllm.scheduler(device, "v0.14.0rc1").schedules_ahead
    with pytest.raises(InputError, match=r"known since 0\.1\.0"):
        vllm.scheduler(device, "0.0.1")
    with pytest.raises(InputError, match=r"give it as X\.Y\.Z"):
        parse_version("nightly-dev")


def test_sglang_shares_a_step_among_data_parallel_ranks():
    found = load_serving_profiles()["sglang"].scheduler(load_device("h200-sxm"))
    assert found.scheduling(10_000).max_step_tokens == 8192
    shared = found.scheduling(10_000, data_parallel=8)
    assert (shared.max_step_tokens, shared.max_sequences) == (1024, 256)
    assert shared.reserved_answers == pytest.approx(0.21)
