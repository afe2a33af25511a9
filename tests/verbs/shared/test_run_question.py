import math
from pathlib import Path
from typing import Any

import pytest

from perfcast.errors import InputError
from perfcast.prediction.request.run import RunRequest
from perfcast.verbs.shared.run import RunQuestion, read_price, run_request_of


def build(**options: Any) -> RunRequest | None:
    return run_request_of("h100-sxm", RunQuestion(**options))


def test_without_tokens_there_is_no_run() -> None:
    assert build() is None


def test_options_of_a_run_without_its_tokens_are_refused() -> None:
    with pytest.raises(InputError, match=r"--async-checkpoint.*--tokens"):
        build(async_checkpoint=True)


def test_options_are_hours_minutes_and_gigabytes() -> None:
    request = build(tokens=1e12, mtbf="2", restart=3.0, checkpoint_interval="4", checkpoint_bandwidth=5.0)
    assert request == RunRequest(
        tokens=1e12, between_interruptions_seconds=7200.0, restart_seconds=180.0,
        checkpoint_interval_seconds=240.0, checkpoint_bytes_per_second=5e9,
    )  # fmt: skip


def test_no_interruptions_are_infinitely_far_apart() -> None:
    request = build(tokens=1e12, mtbf="none")
    assert request is not None
    assert request.between_interruptions_seconds == math.inf


def test_an_interval_may_be_an_optimum() -> None:
    request = build(tokens=1e12, checkpoint_interval="young")
    assert request is not None
    assert (request.checkpoint_rule, request.checkpoint_interval_seconds) == ("young", None)


@pytest.mark.parametrize("option", ["mtbf", "checkpoint_interval", "price"])
def test_what_is_no_number_is_refused_by_name(option: str) -> None:
    with pytest.raises(InputError, match=f"--{option.replace('_', '-')} 'soon' is not a number"):
        build(tokens=1e12, **{option: "soon"})


def test_a_file_of_prices_states_dollars_and_source(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text('[prices]\nh100-sxm = { dollars = 2.5, source = "a contract" }\nb200 = { dollars = 4 }\n')
    dollars, source = read_price(str(path), "h100-sxm")
    assert (dollars, source) == (2.5, f"{path}: a contract")
    with pytest.raises(InputError, match="no price of a100-sxm-80gb"):
        read_price(str(path), "a100-sxm-80gb")
    with pytest.raises(InputError, match="dollars and source"):
        read_price(str(path), "b200")
    assert read_price("2.5", "b200") == (2.5, "")
