"""How many tokens serving programs read in a step."""

from __future__ import annotations

import pytest

from perfcast.catalogs.devices import load_device
from perfcast.frameworks.load import load_inference_profiles


@pytest.mark.parametrize(
    ("framework", "device", "tokens"),
    [
        ("vllm", "h100-sxm", 8192),  # 70 GiB and more
        ("vllm", "a100-sxm-80gb", 2048),  # but not A100
        ("vllm", "l40s", 2048),
        ("sglang", "a100-sxm-80gb", 8192),
        ("sglang", "l40s", 4096),
        ("sglang", "mi300x", 16384),
        ("trtllm", "l40s", 8192),
        ("pytorch", "h100-sxm", None),
    ],
)
def test_a_step_is_as_long_as_the_program_makes_it_on_a_device(framework, device, tokens):
    assert load_inference_profiles()[framework].most_step_tokens(load_device(device)) == tokens


def test_without_a_device_a_step_is_as_long_as_on_the_largest():
    assert load_inference_profiles()["sglang"].most_step_tokens(None) == 16384
