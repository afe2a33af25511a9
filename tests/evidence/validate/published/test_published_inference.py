from pathlib import Path
from typing import Any

import polars as pl
import pytest

from perfcast.catalogs.devices import load_device
from perfcast.cost.model import CostModel
from perfcast.cost.roofline import Roofline
from perfcast.evidence.validate.published.inference import forecast as published_inference
from perfcast.evidence.validate.published.inference.cases import (
    InferenceCase,
    bloom_176b,
    read_inference_cases,
)
from perfcast.evidence.validate.published.inference.forecast import WITHOUT_HOST, inference_rows, protocol
from perfcast.evidence.validate.row import Row
from perfcast.prediction.serving.steps import step_host

SPLITWISE = {
    "model": "llama2-70b", "hardware": "h100-80gb", "prompt_size": 512, "batch_size": 2, "token_size": 128,
    "peak_power": 1.0, "average_power": 0.7, "prompt_time": 100.0, "token_time": 30.0, "e2e_time": 3940.0,
    "tensor_parallel": 8,
}  # fmt: skip
PRINTED = {
    "id": 1, "source": "NVIDIA/FasterTransformer@1", "source_locator": "a guide", "model": "GPT-20B",
    "gpu": "A100-80GB (DGX A100 SuperPod)", "num_gpus": 8.0, "tp": 8.0, "pp": 1.0, "dtype": "fp16",
    "batch": "1", "input_len": 20, "output_len": 8, "metric": "end-to-end latency", "value": "89.0",
    "unit": "ms", "notes": "dims 44L x 48x128, vocab 51200, top_p 0.9",
}  # fmt: skip


def write(folder: Path, splitwise: list[dict[str, Any]], printed: list[dict[str, Any]] | None = None) -> Path:
    pl.DataFrame(splitwise).write_csv(folder / "inference_splitwise_perf_model.csv")
    pl.DataFrame(printed or [PRINTED]).write_csv(folder / "inference.csv")
    return folder


PREDICTORS = ("closed_form", WITHOUT_HOST)


def roofline(framework: str) -> CostModel:
    return Roofline()


def forecast(folder: Path, *predictors: str) -> tuple[Row, ...]:
    rows, _ = inference_rows(read_inference_cases([folder]), predictors or PREDICTORS, roofline)
    return rows


def cases_of(folder: Path) -> dict[str | int, InferenceCase]:
    return {case.row: case for case in read_inference_cases([folder])}


def test_a_line_of_a_server_is_its_prompts_and_its_tokens(tmp_path: Path) -> None:
    cases = cases_of(write(tmp_path, [SPLITWISE]))
    prompt, token = cases["prefill:0"], cases["decode:0"]
    assert (prompt.measured_seconds, token.measured_seconds) == (pytest.approx(0.1), pytest.approx(0.03))
    assert prompt.plan is not None
    assert (prompt.plan.tensor_parallel, prompt.plan.micro_batch_size) == (8, 2)
    assert prompt.catalog_device == "h100-sxm"


def test_a_printed_line_is_a_request_with_the_sizes_of_its_notes(tmp_path: Path) -> None:
    case = cases_of(write(tmp_path, [SPLITWISE]))[0]
    assert case.model is not None
    assert (case.model.num_layers, case.model.hidden_size, case.model.vocab_size) == (44, 6144, 51_200)
    assert (case.kind, case.prompt_length, case.output_length) == ("request", 20, 8)


def test_a_median_of_repeats_is_forecast_as_the_repeats_are(tmp_path: Path) -> None:
    median = PRINTED | {
        "source": "Splitwise (ISCA24)", "model": "llama2-70b", "gpu": "h100-80gb", "dtype": "fp16 (assumed)",
        "batch": "2", "input_len": 512, "output_len": 128, "metric": "decode (per-token) time",
        "value": "30.0", "notes": "",
    }  # fmt: skip
    rows = {row.row: row for row in forecast(write(tmp_path, [SPLITWISE], [median]), "closed_form")}
    assert rows[0].predicted_seconds == rows["decode:0"].predicted_seconds
    assert (rows[0].columns["source_group"], rows[0].operation) == ("splitwise", "decode")


def test_megatron_beside_issues_its_kernels(tmp_path: Path) -> None:
    beside = PRINTED | {"metric": "end-to-end latency (Megatron baseline)"}
    case = cases_of(write(tmp_path, [SPLITWISE], [beside]))[0]
    assert (case.framework, case.kind, case.issues_kernels) == ("megatron", "request", True)


def test_events_and_formulas_agree_on_a_request(tmp_path: Path) -> None:
    rows = [row for row in forecast(write(tmp_path, [SPLITWISE]), "closed_form", "simulated") if row.row == 0]
    formula, events = (row.predicted_seconds for row in rows)
    assert events == pytest.approx(formula, rel=0.02)


def test_what_is_not_stated_is_a_reason(tmp_path: Path) -> None:
    capped = SPLITWISE | {"hardware": "h100-80gb-pcap"}
    loaded = PRINTED | {"metric": "total output throughput", "unit": "tokens/s", "notes": ""}
    nameless = PRINTED | {"notes": "no sizes"}
    full = PRINTED | {"value": "OOM"}
    memory = PRINTED | {"metric": "GPU memory used", "unit": "GB"}
    cases = cases_of(write(tmp_path, [capped], [loaded, nameless, full, memory]))
    assert cases["prefill:0"].skipped == "unknown device"
    assert [cases[row].skipped for row in range(4)] == [
        "incomplete: batch", "incomplete: model", "impossible value", "unsupported operation",
    ]  # fmt: skip


def test_every_case_has_a_row_by_each_predictor(tmp_path: Path) -> None:
    rows = forecast(write(tmp_path, [SPLITWISE]))
    assert len(rows) == 3 * len(PREDICTORS)
    assert all(row.predicted_seconds and row.skipped is None for row in rows)
    assert all((row.predicted_seconds_low or 0) <= (row.predicted_seconds or 0) for row in rows)


def test_a_host_that_issues_every_kernel_and_works_between_steps_decides(tmp_path: Path) -> None:
    rows = {(row.predictor, row.row): row.predicted_seconds for row in forecast(write(tmp_path, [SPLITWISE]))}
    issued, replayed = rows["closed_form", "decode:0"], rows["graph_replay", "decode:0"]
    host = step_host("vllm", published_inference.VLLM_OF_2023, load_device("h100-sxm"))
    assert issued is not None
    assert replayed is not None
    assert issued > 80 * 8 * host.launch_seconds + host.fixed_seconds
    assert issued > replayed + host.fixed_seconds
    assert rows["closed_form", 0] == rows["graph_replay", 0]


def test_a_request_is_its_prompt_and_its_further_tokens(tmp_path: Path) -> None:
    times = {}
    for length in (1, 2, 101):
        folder = tmp_path / str(length)
        folder.mkdir()
        rows = forecast(write(folder, [SPLITWISE], [PRINTED | {"output_len": length}]))
        times[length] = next(row.predicted_seconds or 0.0 for row in rows if row.row == 0)
    assert times[101] - times[1] == pytest.approx(100 * (times[2] - times[1]), rel=0.02)


def test_measured_columns_do_not_move_a_forecast(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    moved = SPLITWISE | {"prompt_time": 1.0, "token_time": 2.0, "e2e_time": 3.0, "average_power": 0.1}
    before = forecast(write(tmp_path, [SPLITWISE]))
    after = forecast(write(tmp_path / "other", [moved], [PRINTED | {"value": "1.0"}]))
    assert [row.predicted_seconds for row in before] == [row.predicted_seconds for row in after]
    assert not {"prompt_time", "value", "notes"} & set(before[0].columns)


def test_the_protocol_says_what_was_left_out() -> None:
    assert "pcap" in protocol()["inference_left_out"]
    assert bloom_176b().num_layers == 70
