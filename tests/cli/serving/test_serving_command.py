"""``perfcast serving`` from options to answers, and each wrong combination in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from perfcast.cli.main import run

WHAT = ("serving", "llama3-8b", "--cost-model", "roofline", "--num-requests", "30", "--method", "events")
WHERE = ("--device", "h100-sxm")
LENGTHS = ("--input-length", "256", "--output-length", "8")
LOAD = ("--concurrency", "4")


class Outcome(NamedTuple):
    """What a command line answers."""

    code: int
    out: str
    err: str


@pytest.fixture
def perfcast(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """A command line, run in this process."""

    def command(*arguments: str) -> Outcome:
        code = run(list(arguments))
        said = capsys.readouterr()
        return Outcome(code, said.out, said.err)

    return command


def test_an_answer_begins_with_what_clients_wait(perfcast):
    outcome = perfcast(*WHAT, *WHERE, *LENGTHS, *LOAD)
    assert outcome.code == 0, outcome.err
    assert "Time to first token" in outcome.out
    assert "4 clients" in outcome.out


def test_json_has_both_ends_of_every_interval(perfcast):
    outcome = perfcast(*WHAT, *WHERE, *LENGTHS, *LOAD, "--price", "2.5", "--json", "-")
    answer = json.loads(outcome.out)
    median = answer["answer"]["time_to_first_token"]["median"]
    assert median["low"] < median["value"] < median["high"]
    assert answer["load"] == {
        "kind": "closed", "concurrency": 4, "requests_per_second": None, "burstiness": None
    }  # fmt: skip
    assert answer["answer"]["rates"]["dollars_per_million_output_tokens"]["value"] > 0
    assert answer["fits"] is True


def test_a_plan_and_its_replicas_say_how_many_devices_there_are(perfcast):
    outcome = perfcast(*WHAT, *WHERE, "--plan", "tp=2", "--replicas", "2", *LENGTHS, *LOAD, "--json", "-")
    answer = json.loads(outcome.out)
    assert (answer["num_devices"], answer["pools"][0]["replicas"]) == (4, 2)


def test_a_plan_is_repeated_as_often_as_devices_allow(perfcast):
    outcome = perfcast(
        *WHAT, "--cluster", "dgx-h100:8", "--plan", "tp=2", *LENGTHS, "--request-rate", "9", "--json", "-"
    )
    answer = json.loads(outcome.out)
    assert answer["pools"][0]["replicas"] == 4
    assert answer["load"]["kind"] == "open"


def test_two_pools_read_and_write(perfcast):
    pools = ("--prefill-plan", "tp=2", "--decode-plan", "tp=1", "--decode-replicas", "2")
    answer = json.loads(perfcast(*WHAT, *WHERE, *pools, *LENGTHS, *LOAD, "--json", "-").out)
    assert [(pool["role"], pool["num_devices"]) for pool in answer["pools"]] == [
        ("prefill", 2),
        ("decode", 2),
    ]


def test_a_file_of_requests_comes_at_its_own_times(perfcast, tmp_path: Path):
    path = tmp_path / "requests.csv"
    rows = "".join(f"{second},200,5\n" for second in range(40))
    path.write_text(f"arrival_seconds,prompt_tokens,answer_tokens\n{rows}", encoding="utf-8")
    answer = json.loads(perfcast(*WHAT, *WHERE, "--requests", str(path), "--json", "-").out)
    assert answer["load"]["kind"] == "recorded"
    assert answer["answer"]["run"]["num_requests"] == 30


def test_a_sweep_has_a_point_for_each_combination(perfcast):
    sweeps = ("--sweep", "concurrency=1,8", "--sweep", "input-length=64,512")
    answer = json.loads(perfcast(*WHAT, *WHERE, "--output-length", "8", *sweeps, "--json", "-").out)
    assert answer["axes"] == ["concurrency", "input-length"]
    values = [point["values"] for point in answer["points"]]
    assert values[1] == {"concurrency": "1", "input-length": "512"}
    rates = [
        point["forecast"]["answer"]["rates"]["output_tokens_per_second"]["value"]
        for point in answer["points"]
    ]
    assert rates[2] > rates[0]


def test_a_sweep_is_a_table_on_the_terminal(perfcast):
    outcome = perfcast(*WHAT, *WHERE, *LENGTHS, "--sweep", "concurrency=1,4")
    assert outcome.code == 0, outcome.err
    assert "concurrency" in outcome.out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((*WHERE, *LENGTHS), "how do requests come? give --concurrency, --request-rate"),
        ((*WHERE, *LENGTHS, *LOAD, "--request-rate", "2"), "--concurrency, --request-rate: choose one load"),
        ((*WHERE, *LENGTHS, *LOAD, "--saturated"), "--concurrency, --saturated: choose one load"),
        ((*WHERE, *LENGTHS, *LOAD, "--burstiness", "2"), "--burstiness: of --request-rate"),
        ((*WHERE, *LOAD), "how long are requests? give --input-length"),
        ((*WHERE, *LENGTHS, "--requests", "f.csv"), "a file has its own lengths"),
        ((*WHERE, "--requests", "none.csv"), "cannot read the requests 'none.csv'"),
        ((*LENGTHS, *LOAD), "where does it run? give --device NAME, or --cluster NAME:N"),
        ((*WHERE, *LENGTHS, "--concurrency", "0"), "--concurrency 0 is not between 1 and"),
        ((*WHERE, *LENGTHS, "--request-rate", "-1"), "--request-rate -1 is not above 0"),
        (
            (*WHERE, "--input-length", "far", "--output-length", "1", *LOAD),
            "--input-length far: tokens, such",
        ),
        ((*WHERE, "--input-length", "unifrom:9:0.1", "--output-length", "1", *LOAD), "uniform"),
        ((*WHERE, "--input-length", "0", "--output-length", "1", *LOAD), "0 tokens: a length lies between 1"),
        ((*WHERE, *LENGTHS, *LOAD, "--plan", "dp=2"), "attention data-parallel ranks share experts"),
        ((*WHERE, *LENGTHS, *LOAD, "--plan", "zero=1"), "--plan: zero: a replica has tp, pp, dp, ep"),
        (
            (*WHERE, *LENGTHS, *LOAD, "--plan", "tp=2", "--replicas", "3", "--devices", "4"),
            "3 · 2 = 6 devices",
        ),
        ((*WHERE, *LENGTHS, *LOAD, "--replicas", "3"), "--replicas: of a --plan"),
        ((*WHERE, *LENGTHS, *LOAD, "--prefill-plan", "tp=1"), "give both --prefill-plan and --decode-plan"),
        (
            (*WHERE, *LENGTHS, *LOAD, "--plan", "tp=1", "--prefill-plan", "tp=1", "--decode-plan", "tp=1"),
            "--plan, --replicas: of one pool",
        ),
        ((*WHERE, *LENGTHS, *LOAD, "--speculate", "3"), "--speculate '3': DRAFTED:ACCEPTANCE"),
        ((*WHERE, *LENGTHS, *LOAD, "--speculate", "3:2"), "acceptance 2: between 0 and 1"),
        ((*WHERE, *LENGTHS, *LOAD, "--memory-fraction", "1.5"), "--memory-fraction 1.5 is not above 0"),
        ((*WHERE, *LENGTHS, *LOAD, "--memory-fraction", "0.1"), "no plan of 1 devices holds the weights"),
        ((*WHERE, *LENGTHS, *LOAD, "--prefix-hit-share", "1"), "--prefix-hit-share 1 is not at least 0"),
        ((*WHERE, *LENGTHS, *LOAD, "--max-sequences", "0"), "--max-sequences 0 is not between 1"),
        ((*WHERE, *LENGTHS, *LOAD, "--num-requests", "0"), "--num-requests 0 is not between 1"),
        ((*WHERE, *LENGTHS, *LOAD, "--framework", "pytorch"), "unknown serving framework 'pytorch'"),
        ((*WHERE, *LENGTHS, *LOAD, "--framework-version", "newest"), "give it as X.Y.Z"),
        ((*WHERE, *LENGTHS, *LOAD, "--percentile", "0.5"), "--percentile: of --max-ttft"),
        ((*WHERE, *LENGTHS, *LOAD, "--speculate", "2:0.7"), "llama3-8b has no layers that predict further"),
        ((*WHERE, *LENGTHS, *LOAD, "--expert-load", "2"), "expert load 2: llama3-8b has no experts"),
        ((*WHERE, *LENGTHS, *LOAD, "--expert-load", "0.5"), "--expert-load 0.5 is not at least 1"),
        ((*WHERE, *LENGTHS, *LOAD, "--rank-wait-steps", "9"), "rank wait steps: of attention data-parallel"),
        ((*WHERE, *LENGTHS, *LOAD, "--polls-every-steps", "0"), "--polls-every-steps 0 is not"),
        ((*WHERE, *LENGTHS, *LOAD, "--method", "guess"), "unknown method 'guess'"),
        ((*WHERE, *LENGTHS, "--sweep", "concurrency"), "--sweep concurrency: NAME=V,V,…"),
        ((*WHERE, *LENGTHS, "--sweep", "colour=1"), "unknown axis of a sweep 'colour'"),
        ((*WHERE, *LENGTHS, "--sweep", "concurrency=one"), "--sweep concurrency: 'one' is no value"),
        (
            (*WHERE, *LENGTHS, "--sweep", "concurrency=1", "--sweep", "concurrency=2"),
            "--sweep: concurrency is given twice",
        ),
        ((*LENGTHS, *LOAD, "--device", "h100-smx"), "h100-sxm"),
        (("--input-length", "900000", "--output-length", "8", *WHERE, *LOAD), "no plan of 1 devices holds"),
    ],
)
def test_a_wrong_question_is_one_clear_error(perfcast, options: tuple[str, ...], says: str):
    outcome = perfcast("serving", "llama3-8b", "--cost-model", "roofline", "--num-requests", "30", *options)
    assert outcome.code == 2
    assert says in outcome.err
    assert "Traceback" not in outcome.err


def test_one_device_needs_no_cluster_of_the_catalog(perfcast):
    outcome = perfcast(*WHAT, "--device", "v100-sxm2-32gb", *LENGTHS, *LOAD)
    assert outcome.code == 0, outcome.err
