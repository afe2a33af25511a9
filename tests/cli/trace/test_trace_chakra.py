"""``perfcast trace chakra`` and ``perfcast predict --chakra``."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from perfcast.cli.predict.command import predict
from perfcast.cli.trace.chakra import chakra
from perfcast.errors import TraceError
from perfcast.traces.chakra.order import longest_path
from perfcast.traces.chakra.reader import read_chakra
from perfcast.units import MICRO
from recorded_traces import two_kernels

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 128,
    "max_position_embeddings": 64,
}  # fmt: skip


def called(command: click.Command, *arguments: object) -> None:
    command.main([str(one) for one in arguments], standalone_mode=False)


def test_a_recording_becomes_a_trace_that_takes_as_long(tmp_path: Path, capsys):
    recording = two_kernels().write(tmp_path)
    out = tmp_path / "made" / "of it"
    called(chakra, recording, "--out", out)
    printed = capsys.readouterr().out
    assert "100 µs; recorded 100 µs (+0.00%)" in printed
    assert f"wrote {out / 'workload.0.et'}" in printed.replace("\n", "")
    assert longest_path(read_chakra(out / "workload.0.et")).micros == 100


def test_a_chakra_trace_is_told_of_in_json(tmp_path: Path, capsys):
    called(chakra, two_kernels().write(tmp_path), "--out", tmp_path / "out")
    capsys.readouterr()
    called(chakra, tmp_path / "out" / "workload.0.et", "--json", "-")
    data = json.loads(capsys.readouterr().out)
    assert data["ranks"][0]["longest_path_seconds"] == pytest.approx(100 * MICRO)
    assert data["ranks"][0]["num_nodes_by_type"]["compute"] == data["ranks"][0]["num_nodes"]
    assert data["num_objections"] == 0


def test_one_rank_alone_is_refused_for_astra_sim_before_anything_is_written(tmp_path: Path):
    with pytest.raises(TraceError, match="ASTRA-sim takes two ranks or more") as caught:
        called(chakra, two_kernels().write(tmp_path), "--out", tmp_path / "out", "--astra-sim")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_options_of_writing_need_a_folder(tmp_path: Path):
    with pytest.raises(click.UsageError, match="--astra-sim: of writing; give --out DIR"):
        called(chakra, two_kernels().write(tmp_path), "--astra-sim")


def test_a_recording_without_folder_says_what_to_do(tmp_path: Path):
    with pytest.raises(TraceError, match=r"no Chakra trace.*"):
        called(chakra, two_kernels().write(tmp_path))


def test_an_execution_trace_alone_has_no_times(tmp_path: Path):
    path = tmp_path / "et.json"
    path.write_text('{"schema": "1.1.1-chakra.0.0.4", "nodes": []}')
    with pytest.raises(click.UsageError, match="has no times"):
        called(chakra, path, "--out", tmp_path / "out")


def test_a_forecast_of_one_device_is_written_too(tmp_path: Path, capsys):
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG))
    data = tmp_path / "forecast.json"
    called(
        predict, config, "--device", "a100-sxm-80gb", "--sequence-length", 16, "--cost-model", "roofline",
        "--chakra", tmp_path / "out", "--json", data,
    )  # fmt: skip
    step = json.loads(data.read_text())["step_seconds"]
    micros = longest_path(read_chakra(tmp_path / "out" / "workload.0.et")).micros
    assert micros * MICRO == pytest.approx(step, abs=2 * MICRO)


def test_a_forecast_of_a_plan_is_written_for_astra_sim(tmp_path: Path, capsys):
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG))
    called(
        predict, config, "--cluster", "dgx-a100:2", "--sequence-length", 16, "--cost-model", "roofline",
        "--chakra", tmp_path / "out", "--json", "-",
    )  # fmt: skip
    printed = capsys.readouterr()
    step = json.loads(printed.out)["step_seconds"]
    assert f"wrote {tmp_path / 'out'}" in printed.err.replace("\n", "")
    called(chakra, *sorted((tmp_path / "out").glob("*.et")), "--json", "-")
    told = json.loads(capsys.readouterr().out)
    assert told["num_objections"] == 0
    assert told["together_seconds"] == pytest.approx(step, abs=5 * MICRO)
