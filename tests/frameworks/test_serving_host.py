"""Hosts of serving programs by version, and the graphs that they capture."""

from itertools import pairwise

import pytest

from perfcast.errors import CatalogError, UnknownNameError
from perfcast.frameworks.serving_host import load_serving_host, parse_serving_host


def _figure(value: float, unit: str = "us") -> dict[str, object]:
    return {"value": value, "unit": unit, "source": "here"}


_ROW = {
    "since": "0.1",
    "source": "here",
    "overlaps": True,
    "captured": [[1, 1], [4, 2]],
    **{key: _figure(5) for key in ("fixed", "sequence", "prompt", "gap", "launch")},
}


@pytest.mark.parametrize(
    ("framework", "before", "after"), [("vllm", "0.11.2", "0.16.0"), ("sglang", "0.3.6", "0.5.9")]
)
def test_newer_versions_prepare_steps_beside_the_device(framework: str, before: str, after: str) -> None:
    assert not load_serving_host(framework, before).host.overlaps
    assert load_serving_host(framework, after).host.overlaps
    assert load_serving_host(framework) == load_serving_host(framework, "999.0")


def test_vllm_captures_multiples_of_eight_and_then_of_sixteen_up_to_512() -> None:
    sizes = load_serving_host("vllm", "0.16.0").captured_tokens(2048)
    assert sizes[:5] == (1, 2, 4, 8, 16)
    assert sizes[-2:] == (496, 512)
    assert all(small < large for small, large in pairwise(sizes))


def test_the_largest_graph_is_of_the_largest_batch() -> None:
    assert load_serving_host("trtllm").captured_tokens(200) == (1, 2, 4, *range(8, 129, 8), 192, 200)
    assert load_serving_host("sglang").captured_tokens(11) == (*range(1, 9), 10, 11)


def test_vllm_of_2023_captures_nothing() -> None:
    assert load_serving_host("vllm", "0.2.7").captured_tokens(256) == ()


def test_a_framework_that_does_not_serve_is_unknown() -> None:
    with pytest.raises(UnknownNameError, match="sglang, trtllm, vllm"):
        load_serving_host("megatron")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{**_ROW, "most": 1}], "most is unknown"),
        ([{key: value for key, value in _ROW.items() if key != "gap"}], "gap is missing"),
        ([_ROW, _ROW], "rising version"),
        ([{**_ROW, "overlaps": 1}], "true or false"),
        ([{**_ROW, "captured": [[4, 0]]}], "up to"),
    ],
)
def test_a_row_that_says_less_or_more_is_refused(rows: list[dict[str, object]], message: str) -> None:
    with pytest.raises(CatalogError, match=message):
        parse_serving_host(rows, {"here": "somewhere"}, "test")
