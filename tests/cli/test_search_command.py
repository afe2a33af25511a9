"""``perfcast search`` as a person meets it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from jsonschema import Draft202012Validator

from perfcast.cli.main import run
from perfcast.errors import InputError
from perfcast.report.answers import schema_of
from perfcast.searches.space.fixed import read_fixed
from perfcast.verbs.shared.values import parse_counts, parse_time, split_names

FEW = "schedule=1f1b,recompute=none,offload=none,cp=1,order=tp-cp-dp-pp,mbs=1"
COMMON = ("--cost-model", "roofline", "--sequence-length", "32", "--fix", FEW, "--processes", "1")
BATCH = ("--global-batch-size", "16")


def called(capsys: pytest.CaptureFixture[str], model: str, *arguments: str) -> tuple[int, str, str]:
    code = run(["search", model, *COMMON, *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def written(capsys: pytest.CaptureFixture[str], model: str, *arguments: str) -> dict[str, Any]:
    code, out, err = called(capsys, model, *BATCH, *arguments, "--json", "-")
    assert (code, err) == (0, "")
    data: dict[str, Any] = json.loads(out)
    return data


def test_the_best_plan_is_simulated_ranked_explained_and_keeps_to_the_schema(
    tiny: str, capsys: pytest.CaptureFixture[str]
):
    data = written(capsys, tiny, "--cluster", "dgx-h100:4", "--compare", "tp=2,pp=2,mbs=2", "--top", "4")
    jsonschema.validate(data, schema_of("search"))
    result = data["clusters"][0]["result"]
    steps = [plan["step_seconds"] for plan in result["ranked"]]
    assert steps == sorted(steps)
    assert len(steps) == 4
    assert [e["label"] for e in data["explanations"]] == ["the winner", "tp=2,pp=2,mbs=2"]
    assert data["explanations"][0]["step_seconds"] == pytest.approx(steps[0])
    assert data["differences"][0]["step_seconds"] > 0


def test_clusters_are_compared_by_dollars_from_a_file(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    prices = tmp_path / "prices.csv"
    prices.write_text("name,dollars_per_device_hour\ndgx-h100,1000\ndgx-a100,1\n", encoding="utf-8")
    data = written(
        capsys, tiny, "--cluster", "dgx-h100:4,dgx-a100:4", "--prices", str(prices),
        "--objective", "dollars-per-token", "--no-simulate",
    )  # fmt: skip
    assert data["ranking"] == ["dgx-a100:4", "dgx-h100:4"]
    assert all(plan["dollars_per_token"] > 0 for plan in data["clusters"][0]["result"]["ranked"])


def test_sensitivity_has_every_condition(tiny: str, capsys: pytest.CaptureFixture[str]):
    data = written(capsys, tiny, "--cluster", "dgx-h100:4", "--sensitivity", "--no-simulate")
    names = [point["name"] for point in data["sensitivity"]["points"]]
    assert set(names) == {"network bandwidth", "device memory", "batch size"}


def test_the_text_and_the_page_are_written(tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    page = tmp_path / "page.html"
    code, out, _ = called(
        capsys, tiny, *BATCH, "--cluster", "dgx-h100:4", "--html", str(page), "--no-simulate"
    )
    assert code == 0
    assert "Best plan" in out
    assert f"wrote {page}" in out.replace("\n", "")
    assert "figure-pareto" in page.read_text(encoding="utf-8")


def test_inference_is_searched_within_a_limit(tiny: str, capsys: pytest.CaptureFixture[str]):
    arguments = (
        "--cost-model", "roofline", "--sequence-length", "32", "--cluster", "dgx-h100:2", "--mode", "decode",
    )  # fmt: skip
    code = run(["search", tiny, *BATCH, *arguments, "--max-tpot", "1s", "--json", "-"])
    data = json.loads(capsys.readouterr().out)
    assert code == 0
    assert data["clusters"][0]["ranked"][0]["token"]["seconds"] <= 1


def test_the_fewest_devices_for_a_deadline_are_found(tiny: str, capsys: pytest.CaptureFixture[str]):
    needs = ("--objective", "devices", "--tokens", "1e6")
    data = written(
        capsys, tiny, "--cluster", "dgx-h100:8", *needs, "--deadline", "1d", "--num-simulated", "2"
    )
    jsonschema.validate(data, schema_of("search"))
    result = data["clusters"][0]["result"]
    assert data["best_cluster"] == "dgx-h100:1"
    assert (result["num_devices"], result["ranked"][0]["objective_value"]) == (1, 1)
    assert result["num_steps"] == 1954  # 10⁶ tokens of 512 a step, whole steps
    assert result["num_simulated"] <= 2


def test_another_searchers_choice_stands_beside_the_winner(tiny: str, capsys: pytest.CaptureFixture[str]):
    arguments = ("--sequence-length", "32", "--fix", FEW, *BATCH, "--cluster", "dgx-h100:4")
    code = run(["search", tiny, *arguments, "--cost-model", "searcher-3d", "--processes", "1", "--json", "-"])
    data = json.loads(capsys.readouterr().out)
    assert code == 0
    jsonschema.validate(data, schema_of("search"))
    # dp · tp · pp = 4: (1, 1, 4), (1, 2, 2), (1, 4, 1), (2, 1, 2), (2, 2, 1), (4, 1, 1).
    plans = data["baseline"]["plans"]
    assert data["baseline"]["num_plans"] == len(plans) == 6
    assert all(p["data_parallel"] * p["tensor_parallel"] * p["pipeline_parallel"] == 4 for p in plans)
    seconds = [plan["baseline_step_seconds"] for plan in plans]
    assert seconds == sorted(seconds)
    assert [e["label"] for e in data["explanations"]] == ["the winner", "searcher-3d's choice"]


def test_a_sweep_passes_on_objective_tokens_prices_and_limits(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    prices = tmp_path / "prices.toml"
    prices.write_text("[dollars_per_device_hour]\ndgx-h100 = 3600\n", encoding="utf-8")
    arguments = (
        "--cluster", "dgx-h100:2", "--global-batch-size", "8,16", "--store", str(tmp_path / "store"),
        "--objective", "dollars-per-token", "--prices", str(prices), "--num-simulated", "2", "--top", "1",
        "--tokens", "1e6", "--deadline", "30d", "--min-mfu", "1e-9", "--max-memory-fraction", "0.9",
    )  # fmt: skip
    code = run(["search", tiny, *COMMON[:-2], *arguments, "--json", "-"])
    data = json.loads(capsys.readouterr().out)
    assert code == 0
    Draft202012Validator(schema_of("search-sweep")).validate(data)
    assert data["objective"] == "dollars-per-token"
    for row in data["rows"]:
        assert (row["method"], row["num_simulated"] <= 2) == ("simulated", True)
        # A dollar a second and device: two dollars for each second of a step.
        tokens = row["global_batch_size"] * 32
        assert row["value"] == row["dollars_per_token"] == pytest.approx(2 * row["step_seconds"] / tokens)
        assert row["step_seconds_low"] <= row["step_seconds"] <= row["step_seconds_high"]
    settings = json.loads(next((tmp_path / "store").glob("*/job.json")).read_text())["settings"]
    given = {
        name: settings[name] for name in ("tokens", "deadline_seconds", "min_mfu", "max_memory_fraction")
    }
    assert given == {
        "tokens": 1e6, "deadline_seconds": 30 * 86400, "min_mfu": 1e-9, "max_memory_fraction": 0.9
    }  # fmt: skip


def test_a_sweep_shows_the_objectives_figure(tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    arguments = (
        "--cluster", "dgx-h100:2", "--global-batch-size", "8,16", "--store", str(tmp_path / "store"),
        "--objective", "time-to-train", "--tokens", "1e6", "--top", "1",
    )  # fmt: skip
    code = run(["search", tiny, *COMMON[:-2], *arguments])
    out = capsys.readouterr().out
    assert code == 0
    assert re.search(r"^  [\d.]+ (s|min|h|d) · .* tokens/s · .*mbs=", out, re.MULTILINE)
    assert "2 cells: 2 computed" in out


def test_a_sweep_keeps_its_cells(tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    arguments = ("--cluster", "dgx-h100:2", "--global-batch-size", "8,16", "--store", str(tmp_path / "store"))
    runs = []
    for _ in range(2):
        code = run(["search", tiny, *COMMON[:-2], *arguments, "--json", "-", "--top", "1"])
        out = capsys.readouterr().out
        assert code == 0
        runs.append(json.loads(out))
    assert [run["num_computed"] for run in runs] == [2, 0]
    assert runs[0]["rows"] == runs[1]["rows"]


BROKEN_CLUSTER = '[clusters.mine]\ntitle = "mine"\ndevice = "h100-sxm"\n[sources]\n'
BAD: dict[str, tuple[tuple[str, ...], str]] = {
    "too little memory": (("--max-memory-fraction", "1e-6"), "no plan"),
    "too high an MFU": (("--min-mfu", "0.999"), "an MFU of at least 99.9 %"),
    "no such degree": (("--fix", "tp=3"), "no plan for 4 devices"),
    "a fraction above 1": (("--max-memory-fraction", "2"), "--max-memory-fraction 2"),
    "NaN as an MFU": (("--min-mfu", "nan"), "--min-mfu 'nan' is not a number"),
    "an unknown objective": (("--objective", "speed"), "unknown objective 'speed'"),
    "an unknown key": (("--fix", "xp=2"), "unknown plan key 'xp'"),
    "a word that is none": (("--fix", "recompute=some"), "Known: none, selective, full"),
    "a key with two values": (("--fix", "tp=2", "--fix", "pp=1,tp=4"), "--fix: tp is given twice"),
    "nothing fixed": (("--fix", ""), "--fix '': an empty text says nothing"),
    "a degree of nothing": (("--fix", "tp=0"), "tp=0: must be at least 1"),
    "both ways not to simulate": (("--no-simulate", "--num-simulated", "5"), "contradict"),
    "a negative number of simulations": (("--num-simulated", "-1"), "--num-simulated"),
    "no process": (("--processes", "0"), "--processes"),
    "devices without a deadline": (("--objective", "devices"), "needs --deadline and --tokens"),
    "a deadline that nothing keeps": (
        ("--objective", "devices", "--tokens", "1e15", "--deadline", "1s"),
        "no size of dgx-h100 up to 4 devices",
    ),
    "an objective that is nearly one": (("--objective", "energy"), "Did you mean energy-per-token?"),
    "a deadline without tokens": (("--deadline", "3d"), "--deadline needs --tokens"),
    "no number of tokens": (("--tokens", "nan", "--objective", "time-to-train"), "--tokens 'nan': no number"),
    "an unknown cost model": (("--cost-model", "searcher-4d"), "unknown cost model"),
    "another searcher in a sweep": (
        ("--cost-model", "searcher-3d", "--backend", "ray"),
        "searcher-3d is of a single search",
    ),
    "processes of a sweep on its own": (("--store", "sweeps", "--processes", "2"), "goes with --backend ray"),
    "the fewest devices of a sweep": (
        ("--objective", "devices", "--tokens", "1e9", "--deadline", "1d", "--sequence-length", "16,32"),
        "a sweep's cells have their devices",
    ),
    "no number": (("--fix", "tp=two"), "not a whole number"),
    "a named plan that cannot be": (("--compare", "tp=3"), "--compare tp=3: 4 devices are no multiple"),
    "dollars without prices": (("--objective", "dollars-per-token"), "needs --prices"),
    "training time without tokens": (("--objective", "time-to-train"), "needs --tokens"),
    "a limit of inference": (("--max-ttft", "1s"), "of inference"),
    "hand-over without a folder": (("--hand-over", "megatron"), "--output DIR go together"),
    "an unknown mode": (("--mode", "serve"), "unknown mode"),
    "an unknown backend": (("--backend", "dask"), "unknown backend"),
    "an address without Ray": (("--address", "localhost:1"), "--address is of --backend ray"),
    "a deadline of no time": (("--tokens", "1e9", "--deadline", "soon"), "--deadline soon: a time above 0"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_clear_line_and_exit_code_2(
    name: str, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    arguments, message = BAD[name]
    report = tmp_path / "report.json"
    code, out, err = called(
        capsys, tiny, *BATCH, "--cluster", "dgx-h100:4", *arguments, "--json", str(report)
    )
    assert (code, out) == (2, "")
    assert message in " ".join(err.split())
    assert "Traceback" not in err
    assert not report.exists()


@pytest.mark.parametrize(
    ("text", "message"), [("nan", "nan is no finite number"), ("-1", "a price is a finite number")]
)
def test_prices_that_are_none_are_refused(
    text: str, message: str, tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    prices = tmp_path / "prices.toml"
    prices.write_text(f"[dollars_per_device_hour]\ndgx-h100 = {text}\n", encoding="utf-8")
    code, _, err = called(capsys, tiny, *BATCH, "--cluster", "dgx-h100:4", "--prices", str(prices))
    assert code == 2
    assert message in err


def test_a_cluster_file_without_links_is_refused(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "mine.toml"
    path.write_text(BROKEN_CLUSTER, encoding="utf-8")
    code, _, err = called(capsys, tiny, *BATCH, "--cluster", f"{path}:4")
    assert code == 2
    assert "mine" in err
    assert "levels" in err


def test_times_counts_and_names_are_read_from_their_texts():
    assert [parse_time("--x", text) for text in ("30d", "12h", "45min", "2s", "50ms", "3")] == [
        30 * 86400, 12 * 3600, 45 * 60, 2, pytest.approx(0.05), 3
    ]  # fmt: skip
    assert parse_counts("--x", "8, 64") == (8, 64)
    assert split_names("--cluster", ("a:8, b:8", "c", "a:8")) == ("a:8", "b:8", "c")
    assert read_fixed("tp=8,zero=0", "recompute=full") == {"tp": 8, "zero": 0, "recompute": "full"}


@pytest.mark.parametrize("text", ["0", "-1", "a", "8,", "1.5"])
def test_counts_that_are_none_are_refused(text: str):
    with pytest.raises(InputError, match="whole numbers above 0"):
        parse_counts("--global-batch-size", text)


_TINY = {
    "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 256, "intermediate_size": 512,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1024, "max_position_embeddings": 2048,
}  # fmt: skip


def test_a_search_of_deployments_answers_as_text_and_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    config, answer = tmp_path / "config.json", tmp_path / "found.json"
    config.write_text(json.dumps(_TINY), encoding="utf-8")
    asked = [
        "search", str(config), "--cluster", "dgx-h100:2", "--mode", "serving", "--input-length", "256",
        "--output-length", "32", "--concurrency", "8", "--max-ttft", "1s", "--num-played", "1",
        "--cost-model", "roofline", "--max-sequences", "16", "--max-step-tokens", "1024",
    ]  # fmt: skip
    assert run([*asked, "--json", str(answer)]) == 0
    assert "perfcast serving" in capsys.readouterr().out
    data = json.loads(answer.read_text(encoding="utf-8"))
    Draft202012Validator(schema_of("search-deployments")).validate(data)
    assert data["ranked"][0]["worst_over_limit"] <= 1


def test_what_only_serving_has_is_refused_elsewhere(capsys: pytest.CaptureFixture[str]):
    assert run(["search", "gpt2", "--cluster", "dgx-h100:2", *BATCH, "--concurrency", "4"]) == 2
    assert "--concurrency: of --mode serving" in capsys.readouterr().err
    assert run(["search", "gpt2", "--cluster", "dgx-h100:2", "--mode", "serving"]) == 2
    assert "how long are requests?" in capsys.readouterr().err
