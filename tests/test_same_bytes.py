"""Same inputs, same bytes: on one processor or several, with any hash seed, with captures kept or not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import perfcast as pc
from golden.inputs import write_inputs
from golden.verbs import CASES
from same_bytes import CPUS

#: One name for each way of computing an answer; all of them where the long tests run.
FEW = (
    "predict, learned", "predict, a plan", "predict, a run", "predict, stragglers", "predict, dlrm",
    "memory, closed form", "memory, a plan", "search", "search, decode", "shard", "scale", "scale, serve",
    "serving, two pools", "mesh cost", "mesh cost, flows", "mesh discover", "trace explain", "trace forecast",
    "trace chakra", "validate kernels", "catalog devices",
)  # fmt: skip


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """JSON of one processor and one seed; of all processors and another, which finds captures kept."""
    place = tmp_path_factory.mktemp("same")
    (place / "inputs").mkdir()
    inputs = write_inputs(place / "inputs")
    names = list(CASES) if os.environ.get("PERFCAST_FUZZ_CASES") else list(FEW)
    settings = {"first": ("0", "1", "1"), "second": ("4242", "2", "")}
    processes = []
    for name, (seed, threads, cpus) in settings.items():
        (place / name).mkdir()
        variables = {
            **os.environ, "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": threads, CPUS: cpus,
            "PERFCAST_DATA_DIR": str(place / "data"), "PERFCAST_CACHE": str(place / "cache"),
        }  # fmt: skip
        words = [sys.executable, str(Path(__file__).with_name("same_bytes.py"))]
        processes.append(
            subprocess.run(
                [*words, str(inputs), str(place / name), *names],
                env=variables, capture_output=True, text=True, check=False,
            )
        )  # fmt: skip
    assert [done.returncode for done in processes] == [0, 0], processes[-1].stderr
    return place / "first", place / "second"


def without_timings(text: str) -> str:
    found = json.loads(text)
    found.pop("timings", None)
    return json.dumps(found)


def test_same_inputs_give_the_same_bytes(answers: tuple[Path, Path]):
    first, second = answers
    assert {path.name for path in first.iterdir()} == {path.name for path in second.iterdir()}
    different = [
        path.name
        for path in first.iterdir()
        if without_timings(path.read_text()) != without_timings((second / path.name).read_text())
    ]
    assert different == []


def test_every_result_says_where_it_comes_from(answers: tuple[Path, Path]):
    for path in answers[0].iterdir():
        found = json.loads(path.read_text())
        assert list(found)[:3] == ["schema_version", "perfcast_version", "origin"], path.name
        origin = found["origin"]
        assert len(origin["catalog_sha256"]) == len(origin["weights_sha256"]) == 64
        assert origin["command"].startswith("perfcast ") or origin["question"] is None
        assert origin["libraries"].keys() >= {"python", "numpy", "torch"}


@pytest.mark.parametrize(
    "name",
    [
        "predict-a-plan", "predict-a-run", "memory-a-plan", "search-decode", "shard", "scale", "scale-serve",
        "serving-two-pools", "mesh-cost-flows", "trace-explain", "trace-forecast",
    ],
)  # fmt: skip
def test_a_result_comes_to_be_again(answers: tuple[Path, Path], name: str, monkeypatch):
    first, _ = answers
    monkeypatch.chdir(first.parent / "inputs")
    monkeypatch.setenv("PERFCAST_DATA_DIR", str(first.parent / "data"))
    found = pc.explain_result(first / f"{name}.json")
    assert (found.is_equal, found.changes, found.reason) == (True, (), "")


def test_wall_times_stand_apart(answers: tuple[Path, Path]):
    found = json.loads((answers[0] / "search.json").read_text())
    assert found["timings"]
    assert "seconds_by_part" not in (answers[0] / "search.json").read_text()
