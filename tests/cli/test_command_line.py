"""The command line as a person meets it: exit codes, one-line errors, and what lands on standard output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from perfcast import __version__
from perfcast.catalogs.devices import load_device
from perfcast.cli.main import run
from perfcast.core.dtype import DType
from perfcast.report.answers import schema_of

TINY = {"model_type": "gpt2", "n_layer": 2, "n_embd": 32, "n_head": 2, "vocab_size": 64, "n_positions": 32}
TWIN = """
from torch import nn
import torch

def build(batch_size=2):
    return nn.Linear(4, 4), torch.zeros(batch_size, 4)

class Fails(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(4))

    def forward(self, x):
        raise ValueError("this module never works")

def fails():
    return Fails(), torch.zeros(2, 4)

def wrong():
    return 3
"""


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@pytest.fixture
def perfcast(capsys: pytest.CaptureFixture[str]):
    def call(*arguments: str) -> Outcome:
        code = run([str(a) for a in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(TINY), encoding="utf-8")
    return str(path)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "twin.py"
    path.write_text(TWIN, encoding="utf-8")
    return path


def assert_one_line_error(outcome: Outcome, *says: str) -> None:
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("error: ")
    assert outcome.err.count("\n") == 1, outcome.err
    for text in says:
        assert text in outcome.err


# ---- verbs -------------------------------------------------------------------------------------------


def test_help_lists_the_verbs(perfcast):
    outcome = perfcast("--help")
    assert outcome.code == 0
    assert outcome.err == ""
    for verb in ("predict", "memory", "catalog", "trace", "shard"):
        assert f"  {verb} " in outcome.out


@pytest.mark.parametrize("verb", ["predict", "memory"])
def test_every_option_of_a_verb_has_a_line_of_help(perfcast, verb: str):
    outcome = perfcast(verb, "--help")
    assert outcome.code == 0
    for option in ("--device", "--plan", "--mode", "--batch-size", "--sequence-length", "--dtype", "--json"):
        assert option in outcome.out


def test_the_version_is_printed(perfcast):
    assert __version__ in perfcast("--version").out


@pytest.mark.parametrize(
    "arguments", [["forecast"], ["predict"], ["predict", "gpt2"], ["predict", "gpt2", "--bogus"]]
)
def test_a_wrong_command_line_exits_with_2(perfcast, arguments: list[str]):
    outcome = perfcast(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert "Traceback" not in outcome.err


# ---- names -------------------------------------------------------------------------------------------


def test_an_unknown_model_lists_close_ones(perfcast):
    assert_one_line_error(
        perfcast("predict", "gpt2larg", "--device", "t4"), "unknown model 'gpt2larg'", "gpt2-large"
    )


def test_an_unknown_device_lists_close_ones(perfcast):
    assert_one_line_error(
        perfcast("predict", "gpt2", "--device", "h100sxm"), "unknown device 'h100sxm'", "h100-sxm"
    )


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--mode", "training", "unknown mode 'training'. Did you mean train"),
        ("--dtype", "bf61", "Did you mean bf16"),
        ("--attention", "flash", "Known: sdpa, eager"),
        ("--optimizer", "adamx", "unknown optimizer 'adamx'"),
        ("--cost-model", "rooflin", "Did you mean roofline"),
        ("--framework", "sglan", "Did you mean sglang"),
        ("--weights", "/no/such/folder", "perfcast train learned"),
        ("--batch-size", "0", "--batch-size 0 is not between 1 and"),
        ("--batch-size", "-3", "--batch-size -3 is not between 1 and"),
        ("--batch-size", "99999999999", "--batch-size 99999999999 is not between 1 and"),
        ("--sequence-length", "0", "--sequence-length 0 is not"),
        ("--sequence-length", "33", "beyond the model's 32 learned positions"),
        ("--micro-batch-size", "2", "micro-batch size 2 is not between 1 and 1"),
        ("--optimizer-implementation", "fussed", "Did you mean fused? Known: fused, foreach, loop."),
        ("--devices", "2", "no cluster of p40 is known"),
        ("--plan", "tp=2", "no cluster of p40 is known"),
        ("--plan", "xp=1", "unknown plan key 'xp'"),
        ("--plan", "tp", "'tp' is not KEY=VALUE"),
        ("--plan", "recompute=", "'recompute=' is not KEY=VALUE"),
        ("--plan", "recompute=some", "unknown recompute 'some'"),
        ("--plan", "zero=3", "no cluster of p40 is known"),
    ],
)
def test_an_impossible_option_is_one_line_that_says_what_is_possible(
    perfcast, tiny: str, option, value, says
):
    assert_one_line_error(perfcast("predict", tiny, "--device", "p40", option, value), says)


def test_a_plan_that_one_device_can_follow_is_taken(perfcast, tiny: str):
    outcome = perfcast(
        "predict", tiny, "--device", "t4", "--plan", "dp=1, tp=1,zero=0,recompute=full", "--json", "-"
    )
    assert outcome.code == 0
    assert json.loads(outcome.out)["recompute_flops"] > 0


def test_a_precision_that_the_device_lacks_lists_what_it_has(perfcast, tiny: str):
    outcome = perfcast("predict", tiny, "--device", "v100-sxm-32gb", "--dtype", "bf16")
    assert_one_line_error(outcome, "has no bf16 arithmetic", "fp16")


# ---- configs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (json.dumps(TINY)[:40], "not valid JSON"),
        ("", "not valid JSON"),
        ("hello", "not valid JSON"),
        ("\x00\x01", "a NUL byte at 0"),
        ("[" * 100_000, "not valid JSON"),
        ("[1, 2]", "expected a JSON object, found list"),
        ("{}", "no 'model_type'"),
        (json.dumps(TINY | {"model_type": "gpt5"}), "unknown model_type 'gpt5'"),
        (json.dumps(TINY | {"architectures": ["GPT2LMHeadModle"]}), "GPT2LMHeadModel"),
        (json.dumps(TINY | {"n_layer": -1}), "n_layer is -1"),
        (json.dumps(TINY | {"n_embd": 0}), "n_embd is 0"),
        (json.dumps(TINY | {"n_embd": 33}), "refuses this config"),
        (json.dumps(TINY | {"vocab_size": 10**12}), "no model is that large"),
        (json.dumps(TINY | {"n_layer": 10**6}), "n_layer is 1000000; no model is that large"),
        (json.dumps(TINY | {"n_head": "two"}), "n_head is 'two'; expected a whole number"),
    ],
    ids="""
        cut-off empty words binary deep list no-type unknown-type unknown-architecture negative zero
        indivisible absurd too-deep text
    """.split(),
)
@pytest.mark.parametrize("verb", ["predict", "memory"])
def test_a_broken_config_is_one_line_and_no_traceback(
    perfcast, tmp_path: Path, verb: str, text: str, says: str
):
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    assert_one_line_error(perfcast(verb, str(path), "--device", "t4"), says)


def test_a_config_that_is_not_there_is_one_line(perfcast, tmp_path: Path):
    assert_one_line_error(perfcast("predict", str(tmp_path / "none.json"), "--device", "t4"), "no such file")
    assert_one_line_error(perfcast("predict", str(tmp_path), "--device", "t4"), "no such file")


def test_a_folder_with_a_config_is_taken(perfcast, tiny: str):
    by_file, by_folder = (
        json.loads(perfcast("predict", name, "--device", "t4", "--json", "-").out)
        for name in (tiny, str(Path(tiny).parent))
    )
    assert by_file["step_seconds"] == by_folder["step_seconds"]


# ---- programs ----------------------------------------------------------------------------------------


def test_a_function_of_a_file_is_forecast(perfcast, program: Path):
    outcome = perfcast("predict", f"{program}:build", "--device", "t4", "--batch-size", "8", "--json", "-")
    assert outcome.code == 0
    forecast = json.loads(outcome.out)
    # forward 2·8·4·4, backward the same for the weight alone (the input needs no gradient)
    assert (forecast["flops"], forecast["batch_size"]) == (2 * 2 * 8 * 4 * 4, 8)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("fails", "twin.py:14: ValueError: this module never works"),
        ("wrong", "must return (module, inputs)"),
        ("bild", "Did you mean build"),
    ],
)
def test_a_program_that_fails_is_one_line_that_names_the_place(
    perfcast, program: Path, function: str, says: str
):
    assert_one_line_error(perfcast("predict", f"{program}:{function}", "--device", "t4"), says)


def test_a_file_that_does_not_run_is_one_line(perfcast, tmp_path: Path):
    (tmp_path / "broken.py").write_text("def build(:\n", encoding="utf-8")
    assert_one_line_error(perfcast("predict", f"{tmp_path}/broken.py:build", "--device", "t4"), "SyntaxError")
    assert_one_line_error(perfcast("predict", f"{tmp_path}/none.py:build", "--device", "t4"), "no such file")


# ---- results -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["train", "prefill", "decode"])
def test_json_on_standard_output_is_alone_there_and_keeps_to_the_schema(perfcast, tiny: str, mode: str):
    asked = ("--device", "a100", "--mode", mode, "--dtype", "bf16", "--framework", "pytorch")
    outcome = perfcast("predict", tiny, *asked, "--json", "-")
    assert (outcome.code, outcome.err) == (0, "")
    forecast: dict[str, Any] = json.loads(outcome.out)
    jsonschema.validate(forecast, schema_of("predict"))
    assert forecast["mode"] == mode
    assert forecast["step_seconds_low"] < forecast["step_seconds"] < forecast["step_seconds_high"]
    phases = sum(forecast[f"{phase}_seconds"] for phase in ("forward", "backward", "optimizer"))
    assert phases + forecast["exposed_host_seconds"] == pytest.approx(forecast["step_seconds"])
    assert (forecast["backward_seconds"] > 0) == (mode == "train")


def test_memory_as_json_keeps_to_its_schema_and_agrees_with_predict(perfcast, tiny: str):
    memory = perfcast("memory", tiny, "--device", "t4", "--json", "-")
    forecast = perfcast("predict", tiny, "--device", "t4", "--json", "-")
    assert (memory.code, memory.err) == (0, "")
    jsonschema.validate(json.loads(memory.out), schema_of("memory"))
    assert json.loads(memory.out)["peak_memory_bytes"] == json.loads(forecast.out)["peak_memory_bytes"]


def test_memory_on_the_local_processor_needs_no_calibration(perfcast, tiny: str):
    assert perfcast("memory", tiny, "--device", "cpu", "--json", "-").code == 0


def test_a_batch_that_is_too_large_is_a_result_that_does_not_fit(perfcast, tiny: str):
    outcome = perfcast("predict", tiny, "--device", "t4", "--batch-size", "1000000", "--json", "-")
    assert outcome.code == 0
    forecast = json.loads(outcome.out)
    assert forecast["fits"] is False
    assert forecast["peak_memory_bytes"] > forecast["memory_capacity_bytes"]


def test_a_forecast_for_people_names_model_device_and_time(perfcast, tiny: str):
    outcome = perfcast("predict", tiny, "--device", "t4")
    assert (outcome.code, outcome.err) == (0, "")
    assert "T4" in outcome.out
    assert "ms" in outcome.out or "µs" in outcome.out


def test_all_files_are_written_and_named(perfcast, tiny: str, tmp_path: Path):
    paths = {option: tmp_path / f"result.{option}" for option in ("json", "html", "timeline")}
    arguments = [text for option, path in paths.items() for text in (f"--{option}", str(path))]
    outcome = perfcast("predict", tiny, "--device", "t4", *arguments)
    assert outcome.code == 0
    assert outcome.out.count("wrote ") == 3
    jsonschema.validate(json.loads(paths["json"].read_text(encoding="utf-8")), schema_of("predict"))
    assert paths["html"].read_text(encoding="utf-8").startswith("<!")
    assert json.loads(paths["timeline"].read_text(encoding="utf-8"))["traceEvents"]


@pytest.mark.parametrize("option", ["--json", "--html", "--timeline"])
def test_a_file_that_cannot_be_written_is_said_before_the_work(perfcast, option: str):
    start = time.perf_counter()
    outcome = perfcast("predict", "gpt3-175b", "--device", "h100-sxm", option, "/nonexistent/x.json")
    assert_one_line_error(outcome, "cannot write /nonexistent/x.json", "/nonexistent does not exist")
    assert time.perf_counter() - start < 2


# ---- catalog -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "least"), [("devices", 50), ("models", 40)])
def test_the_catalog_lists_all_as_json(perfcast, kind: str, least: int):
    outcome = perfcast("catalog", kind, "--json", "-")
    assert outcome.code == 0
    rows = json.loads(outcome.out)[kind]
    assert len(rows) >= least
    assert all(row["figures"] for row in rows if row["name"] != "cpu")


@pytest.mark.parametrize(
    ("kind", "name", "says"), [("devices", "a100", "2039"), ("models", "gpt2-large", "774000000")]
)
def test_the_catalog_shows_one_entry_with_its_figures(perfcast, kind: str, name: str, says: str):
    outcome = perfcast("catalog", kind, name)
    assert outcome.code == 0
    assert says in outcome.out


def test_the_catalog_refuses_an_unknown_name(perfcast):
    assert_one_line_error(perfcast("catalog", "devices", "a1000"), "unknown device 'a1000'", "a100")


def test_a_package_that_is_not_installed_is_one_line(tmp_path: Path):
    program = (
        "import sys; sys.modules['torch'] = None; from perfcast.cli.main import run; "
        "sys.exit(run(['predict', 'gpt2', '--device', 'h100-sxm']))"
    )
    environment = {**os.environ, "PERFCAST_CACHE": "off"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 2
    assert done.stderr == "error: this needs the package 'torch', which is not installed: pip install torch\n"


def test_the_module_runs_as_a_program():
    result = subprocess.run(
        [sys.executable, "-m", "perfcast", "catalog", "devices", "t4", "--json", "-"],
        capture_output=True,
        text=True,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout)["devices"][0]["name"] == "t4"


def test_a_process_that_ends_at_once_has_run_what_is_to_run_at_exit():
    program = (
        "import atexit, sys; from perfcast.cli.main import main; atexit.register(print, 'at exit'); "
        "sys.argv = ['perfcast', 'catalog', 'devices', 'no-such-device']; sys.stdout.write('before '); main()"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (2, "before at exit\n")
    assert "no-such-device" in result.stderr


def test_a_process_waits_for_its_other_threads_before_it_ends():
    program = (
        "import sys, threading, time; from perfcast.cli.main import main; "
        "threading.Thread(target=lambda: (time.sleep(2), print('worked'))).start(); "
        "sys.argv = ['perfcast', 'catalog', 'devices', 't4']; main()"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.returncode == 0
    assert result.stdout.endswith("worked\n")


def test_every_device_of_the_json_list_gives_its_peaks_by_element_type(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PERFCAST_DATA_DIR", str(tmp_path))
    assert run(["catalog", "devices", "--json", "-"]) == 0
    *rows, local = json.loads(capsys.readouterr().out)["devices"]
    assert all(isinstance(row["matrix_flops_per_second"], dict) for row in rows)
    assert local["name"] == "cpu"
    assert local["matrix_flops_per_second"] is None
    calibrated = load_device("t4")
    monkeypatch.setattr("perfcast.prediction.resolve_device", lambda name: calibrated)
    assert run(["catalog", "devices", "--json", "-"]) == 0
    local = json.loads(capsys.readouterr().out)["devices"][-1]
    assert local["vector_flops_per_second"]["fp32"] == calibrated.vector_flops_per_second[DType.FP32]
    assert local["matrix_flops_per_second"]["fp16"] == calibrated.matrix_flops_per_second[DType.FP16]
