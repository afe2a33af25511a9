"""How much of a device serving programs take."""

from __future__ import annotations

import pytest

from perfcast.core.plan import Plan
from perfcast.errors import CatalogError, UnknownNameError
from perfcast.frameworks.serving_memory import load_serving_memory, parse_serving_memory
from perfcast.units import GIB, MIB

SGLANG = load_serving_memory("sglang")
FIGURE = {"value": 0.9, "unit": "1", "source": "s"}


@pytest.mark.parametrize(("framework", "of"), [("vllm", "device"), ("trtllm", "free"), ("sglang", "static")])
def test_a_program_takes_nine_tenths_or_what_its_rule_says(framework, of):
    found = load_serving_memory(framework)
    assert found.fraction_of == of
    assert found.fraction_on(80 * GIB, Plan(), 8192) == 0.9 or framework == "sglang"


def test_sglang_reserves_for_steps_graphs_and_devices():
    # 512 + 1.5 · 8192 + 2 · 512 + 4 / 8 · 1024 = 14336 MiB of 80 GiB
    found = SGLANG.fraction_on(80 * GIB, Plan(tensor_parallel=4), 8192)
    assert found == round(1 - 14336 / (80 * 1024), 3)


def test_sglang_reserves_more_for_ranks_of_attention_and_a_draft_model():
    # of 8 ranks with graphs of 256 sequences: 512 + 12288 + 512 + 128 + 3 · 256 · 8 = 19584 MiB
    spread = Plan(data_parallel=8, tensor_parallel=1, expert_parallel=8)
    assert SGLANG.fraction_on(141 * GIB, spread, 8192) == round(1 - 19584 / (141 * 1024), 3)
    drafting = SGLANG.fraction_on(141 * GIB, spread, 8192, has_draft=True)
    assert drafting == round(1 - (19584 + 2048) / (141 * 1024), 3)


def test_sglang_reserves_ten_gibibytes_of_large_devices_at_least():
    assert SGLANG.fraction_on(80 * GIB, Plan(), 2048) == round(1 - 10 / 80, 3)
    small = 512 + 1.5 * 2048 + 2 * 24 + 128
    assert SGLANG.fraction_on(24 * GIB, Plan(), 1024) == round(1 - small * MIB / (24 * GIB), 3)


def test_what_does_not_serve_is_refused_and_names_what_does():
    with pytest.raises(UnknownNameError, match=r"megatron.*sglang, trtllm, vllm"):
        load_serving_memory("megatron")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"source": "s", "fraction_of": "device", "fraction": FIGURE, "more": 1}, "unknown key more"),
        ({"source": "t", "fraction_of": "device", "fraction": FIGURE}, "source missing"),
        ({"source": "s", "fraction_of": "half", "fraction": FIGURE}, "one of device"),
        ({"source": "s", "fraction_of": "device"}, "either a fraction"),
        ({"source": "s", "fraction_of": "static", "reserved": {"fixed": FIGURE}}, r"\[reserved\] has"),
    ],
)
def test_a_profile_says_all_and_nothing_else(table, message):
    with pytest.raises(CatalogError, match=message):
        parse_serving_memory(table, {"s": "somewhere"}, "here")
