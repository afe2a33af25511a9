"""``perfcast replay`` from a recording of a small training step to its reports."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile

from made_up_traces import execution_document, node, tensor, write
from perfcast.cli.main import run


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Execution trace and timeline of one step of a classifier."""
    folder = tmp_path_factory.mktemp("recorded")
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    observer = ExecutionTraceObserver().register_callback(str(folder / "et.json"))
    with profile(activities=[ProfilerActivity.CPU], execution_trace_observer=observer) as profiler:
        loss = torch.nn.functional.cross_entropy(model(torch.rand(4, 8)), torch.tensor([0, 1, 0, 1]))
        loss.backward()
        optimizer.step()
    profiler.export_chrome_trace(str(folder / "kineto.json"))
    observer.unregister_callback()
    return folder


def test_a_step_is_replayed_whole(recorded: Path, tmp_path: Path) -> None:
    out = {name: str(tmp_path / name) for name in ("r.json", "r.html", "profile.json")}
    arguments = [
        "replay", str(recorded / "et.json"), "--timeline", str(recorded / "kineto.json"), "--host-gaps",
        "--repeat", "3", "--warm-up", "1", "--json", out["r.json"], "--html", out["r.html"],
        "--profile", out["profile.json"],
    ]  # fmt: skip
    assert run(arguments) == 0
    (rank,) = json.loads(Path(out["r.json"]).read_text())["ranks"]
    assert rank["operation_coverage"] == 1.0
    assert rank["num_repetitions"] == 3
    assert rank["host_gaps"] == "scaled"
    assert rank["processor_seconds"]["median"] > 0
    assert "traceEvents" in json.loads(Path(out["profile.json"]).read_text())


def test_a_module_of_the_users_registers_what_pytorch_does_not_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = tmp_path / "toy.py"
    module.write_text(
        "import torch\n"
        "library = torch.library.Library('toy', 'DEF')\n"
        "library.define('twice(Tensor x) -> Tensor')\n"
        "library.impl('twice', lambda x: x * 2, 'CPU')\n"
    )
    sides = [(tensor(number, number + 100, [4]), "Tensor(float)", [4]) for number in (10, 11)]
    nodes = [
        node(3, "toy::twice", inputs=sides[:1], outputs=sides[1:], schema="toy::twice(Tensor x) -> Tensor")
    ]
    trace = write(tmp_path / "toy.json", execution_document(nodes))
    arguments = ["replay", str(trace), "--repeat", "1", "--warm-up", "0"]
    assert run(arguments) == 2
    assert "outside the namespaces" in capsys.readouterr().err
    assert run([*arguments, "--module", str(module), "--json", "-"]) == 0
    (rank,) = json.loads(capsys.readouterr().out)["ranks"]
    assert (rank["operation_coverage"], rank["num_calls"]) == (1.0, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.json"], "nowhere.json"),
        (["{et}", "--steps", "2:1"], "no range of steps"),
        (["{et}", "--host-gaps", "--repeat", "1"], "timeline"),
        (["{et}", "--repeat", "0"], "--generate"),
        (["{et}", "--module", "nowhere.py"], "no such file"),
        (["{et}", "--max-tensor-bytes", "lots"], "no size"),
        (["{et}", "--values", "nowhere"], "no folder"),
        (["{et}", "--reuse", "1,x"], "numbers with commas"),
        (["{et}", "--emulate", "dgx-h100"], "RANKS"),
        (["{et}", "--batch", "8"], "recorded and the wanted"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    recorded: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    filled = [word.format(et=recorded / "et.json") for word in arguments]
    assert run(["replay", *filled]) == 2
    assert message in capsys.readouterr().err


def test_ranks_of_a_launcher_play_together_and_the_first_one_reports(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    sent = (tensor(10, 110, [8]), "Tensor(float)", [8])
    words: list[tuple[object, str, list[object]]] = [
        (7, "Int", []),
        (["0", "default_pg"], "Tuple[String,String]", [[], []]),
        (0, "Int", []),
        ("allreduce", "String", []),
    ]
    described = {"collective_name": "allreduce", "pg_name": "0", "pg_size": 2, "dtype": "Float"}
    sizes = {"in_msg_nelems": 8, "out_msg_nelems": 8}
    record = node(
        3, "record_param_comms", inputs=[sent, *words], outputs=[sent], schema="", **described, **sizes
    )
    trace = write(tmp_path / "reduce.json", execution_document([record]))
    command = [sys.executable, "-m", "perfcast", "replay", str(trace), "--repeat", "2", "--warm-up", "0"]
    meeting = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo"}
    processes = [
        subprocess.Popen(
            [*command, "--json", str(tmp_path / f"{rank}.json")],
            env=os.environ | meeting | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(2)
    ]
    assert [process.wait(120) for process in processes] == [0, 0]
    ranks = json.loads((tmp_path / "0.json").read_text())["ranks"]
    assert [(one["rank"], one["world_size"]) for one in ranks] == [(0, 2), (1, 2)]
    assert [one["collectives"][0]["is_emulated"] for one in ranks] == [False, False]
    assert not (tmp_path / "1.json").exists()
