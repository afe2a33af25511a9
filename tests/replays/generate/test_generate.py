from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from made_up_replays import Script, two_layers
from perfcast.errors import InputError, TraceError
from perfcast.replays.generate.fresh import play_fresh
from perfcast.replays.generate.generate import generate
from perfcast.replays.generate.proven import generate_proven
from perfcast.replays.generate.standalone.benchmark import refused
from perfcast.replays.program.combine import concatenate
from perfcast.replays.program.program import (
    Buffer,
    CallKind,
    Fill,
    Filling,
    ReplayCall,
    ReplayProgram,
    Skipped,
    SlotUse,
)
from perfcast.replays.request import ReplayRequest
from perfcast.report.documents.replays.generated import generated_lines
from perfcast.traces.events import Collective

REPEATED = ("--repeat", "2", "--warm-up", "1")
#: Imports PyTorch once and plays each program in a fork of itself, where perfcast cannot be imported.
BARE = """
import json, os, runpy, sys, torch
for line in sys.stdin:
    *arguments, out, err = json.loads(line)
    child = os.fork()
    if not child:
        for path, descriptor in ((out, 1), (err, 2)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
        sys.argv = arguments
        try:
            runpy.run_path(arguments[0], run_name="__main__")
        except SystemExit as end:
            os._exit((sys.stdout.flush(), int(end.code or 0))[1])
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit((sys.stderr.flush(), 1)[1])
        os._exit((sys.stdout.flush(), 0)[1])
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def bare() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-I", "-c", BARE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def play(bare: subprocess.Popen[str], tmp_path: Path) -> Callable[..., dict[str, object]]:
    """Runs a generated program where perfcast cannot be imported."""

    def played(folder: Path, *arguments: str) -> dict[str, object]:
        assert bare.stdin is not None
        assert bare.stdout is not None
        out, err = (tmp_path / name for name in ("played.out", "played.err"))
        words = [str(folder / "benchmark.py"), *REPEATED, *arguments, str(out), str(err)]
        bare.stdin.write(json.dumps(words) + "\n")
        bare.stdin.flush()
        code = bare.stdout.readline().strip()
        assert code == "0", err.read_text()
        found: dict[str, object] = json.loads(out.read_text())
        out.unlink()
        return found

    return played


def all_reduced(world_size: int) -> ReplayProgram:
    """A product whose result is summed over all ranks."""
    program = two_layers()
    slot = next(slot for call in program.calls for slot in call.outputs if slot >= 0)
    buffer = program.slots[slot].buffer
    place = len(program.calls)
    exchanged = Collective(place, "allreduce", 4, 4, "float32", "", 0)
    both = (SlotUse(slot),)
    call = ReplayCall(
        place + 1, CallKind.COLLECTIVE, "c10d::allreduce_", "", "", (both, both, None), collective=exchanged
    )
    buffers = list(program.buffers)
    buffers[buffer] = replace(buffers[buffer], last_call=place)
    return replace(program, calls=(*program.calls, call), buffers=tuple(buffers), world_size=world_size)


def code_of(folder: Path) -> str:
    return "\n".join(path.read_text() for path in sorted(folder.rglob("*.py")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("generated") / "benchmark"
    generate([two_layers(8, 3)], place)
    return place


def test_a_generated_program_runs_with_pytorch_alone(folder):
    command = [sys.executable, "-I", str(folder / "benchmark.py"), *REPEATED]
    result = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert result["num_steps"] == 3
    assert result["median_step_seconds"] > 0
    assert [len(row) for row in result["step_seconds"]] == [3, 3]


def test_given_tensors_can_be_made_when_first_needed(folder, play):
    assert play(folder, "--lean")["num_steps"] == 3


def test_nothing_of_it_imports_perfcast(folder):
    assert "import perfcast" not in code_of(folder)
    assert "from perfcast" not in code_of(folder)


def test_equal_steps_are_written_once_and_played_in_a_row(folder):
    program = (folder / "replayed/program.py").read_text()
    assert "ORDER = (0, 0, 0)" in program
    assert code_of(folder).count("aten_embedding(") == 1


def test_a_name_is_dropped_after_its_last_use(folder):
    lines = (folder / "replayed/steps_0.py").read_text().splitlines()
    made = next(i for i, line in enumerate(lines) if "mm_5 = " in line)
    used = next(i for i, line in enumerate(lines) if "(mm_5" in line)
    dropped = next(i for i, line in enumerate(lines) if line.strip() == "del mm_5")
    assert made < used < dropped == used + 1


def test_steps_that_differ_are_all_written(tmp_path, play):
    generate([concatenate([two_layers(8), two_layers(4)])], tmp_path / "two")
    assert "ORDER = (0, 1)" in (tmp_path / "two/replayed/program.py").read_text()
    play(tmp_path / "two")


def test_pauses_of_the_host_are_written_and_played_only_when_asked_for(tmp_path, play):
    program = two_layers()
    calls = tuple(replace(call, gap_seconds=0.01) for call in program.calls)
    generate([replace(program, calls=calls)], tmp_path / "paused")
    assert play(tmp_path / "paused")["median_step_seconds"] < 0.05
    assert play(tmp_path / "paused", "--host-gaps")["median_step_seconds"] >= 0.07


def test_operators_with_several_results_and_lists_are_taken_apart(tmp_path, play):
    script = Script()
    rows = script.given(6, 4)
    values, _ = script.calls_many(
        "aten::max", SlotUse(rows), 1, False, makes=((6,), (6,)), dtypes=("float32", "int64")
    )
    halves = script.calls_many("aten::split", SlotUse(values), 3, 0, makes=((3,), (3,)))
    script.call("aten::cat", tuple(SlotUse(half) for half in halves), 0, makes=(6,))
    generate([script.program()], tmp_path / "parts")
    assert "[split_3, split_4]" in code_of(tmp_path / "parts")
    play(tmp_path / "parts")


def test_tensors_that_share_memory_are_windows_onto_it(tmp_path, play):
    script = Script()
    whole = script.given(4, 4)
    upper = replace(script.slots[whole], shape=(2, 4), offset_elements=8, filling=None)
    script.slots.append(upper)
    script.write("aten::add_", SlotUse(1), SlotUse(1), 1)
    script.call("aten::relu", SlotUse(whole), makes=(4, 4))
    generate([script.program()], tmp_path / "shared")
    assert "window(t.memory_0, torch.float32, (2, 4), (4, 1), 8)" in code_of(tmp_path / "shared")
    play(tmp_path / "shared")


def test_every_way_of_filling_runs(tmp_path, play):
    script = Script()
    for filling in (
        Filling(Fill.UNIFORM, 3, 9),
        Filling(Fill.OFFSETS, 0, 40),
        Filling(Fill.PERMUTATION),
        Filling(Fill.MASK, 0, 3),
        Filling(Fill.LOOKUPS, 0, 99, reuse_fractions=(0.5, 0.25, 0.25)),
        Filling(Fill.ZEROS),
    ):
        rows = script.given(12, dtype="int64", filling=filling)
        script.call("aten::relu", SlotUse(rows), makes=(12,), dtypes=("int64",))
    fraction = script.given(12, filling=Filling(Fill.POSITIVE, 0.5, 1))
    script.call("aten::relu", SlotUse(fraction), makes=(12,))
    generate([script.program()], tmp_path / "fills")
    play(tmp_path / "fills")


def test_recorded_values_leave_only_what_tells_how_they_are_used(tmp_path, play):
    import numpy as np

    np.array([41, 7, 41, 99], dtype=np.int64).tofile(tmp_path / "rows.dat")
    script = Script()
    filling = Filling(Fill.RECORDED, path=str(tmp_path / "rows.dat"))
    table, rows = script.given(100, 4), script.given(4, dtype="int64", filling=filling)
    script.call("aten::embedding", SlotUse(table), SlotUse(rows), -1, False, False, makes=(4, 4))
    generate([script.program()], tmp_path / "bare")
    code = code_of(tmp_path / "bare") + (tmp_path / "bare/manifest.json").read_text()
    assert "t.lookups(" in code
    assert "rows.dat" not in code
    play(tmp_path / "bare")


def test_the_manifest_says_where_it_comes_from_and_what_is_missing(tmp_path):
    program = replace(
        two_layers(), skipped=(Skipped(5, "aten::odd", "no such operator here"),), selection={"mode": "all"}
    )
    found = generate([program], tmp_path / "told", fidelity={"relative_error": 0.01})
    manifest = json.loads((tmp_path / "told/manifest.json").read_text())
    assert manifest == found.manifest
    assert manifest["sources"][0]["sha256"] == "0" * 64
    assert manifest["skipped"][0]["reason"] == "no such operator here"
    assert manifest["fidelity"] == {"relative_error": 0.01}
    assert manifest["selection"] == {"mode": "all"}


def test_anonymised_programs_hold_no_label_and_no_name_of_the_source(tmp_path):
    program = replace(two_layers(), source="secret-project.json")
    calls = tuple(replace(call, module="SecretNet.layers.0") for call in program.calls)
    generate([replace(program, calls=calls)], tmp_path / "plain")
    generate([replace(program, calls=calls)], tmp_path / "hashed", is_anonymised=True, salt="s")
    assert "SecretNet.layers.0" in code_of(tmp_path / "plain")
    everything = code_of(tmp_path / "hashed") + (tmp_path / "hashed/manifest.json").read_text()
    assert "ecret" not in everything


def test_an_anonymised_manifest_names_neither_source_nor_own_operators(tmp_path):
    lost = (Skipped(5, "secret::kernel", "the trace only names secret::kernel"),)
    fidelity = {"source": "/home/secret/step.json", "notes": ["secret"], "selection": {"module": "secret"},
                "left_out": [{"operator": "secret::kernel"}], "operation_coverage": 0.5}  # fmt: skip
    made = generate(
        [replace(two_layers(), skipped=lost)], tmp_path / "hashed", is_anonymised=True, fidelity=fidelity
    )
    assert "secret" not in json.dumps(made.manifest)
    assert made.manifest["fidelity"] == {"operation_coverage": 0.5}
    assert made.manifest["skipped"][0]["count"] == 1


def test_calls_of_another_stream_are_played_there_and_the_main_one_follows(tmp_path, play):
    program = two_layers()
    calls = (replace(program.calls[0], stream=24), *program.calls[1:])
    generate([replace(program, calls=calls)], tmp_path / "streams")
    lines = [line.strip() for line in code_of(tmp_path / "streams").splitlines() if "t.use_stream(" in line]
    assert lines == ["t.use_stream(24)", "t.use_stream()"]
    play(tmp_path / "streams")


def hostile(**changes: object) -> ReplayProgram:
    program = two_layers()
    call = replace(program.calls[0], **changes)  # type: ignore[arg-type]
    return replace(program, calls=(call, *program.calls[1:]))


EVIL = "__import__('os').system('touch /tmp/pwned')"


@pytest.mark.parametrize(
    "changes",
    [
        {"operator": f"aten::{EVIL}"},
        {"operator": "aten::relu;import os"},
        {"operator": "aten::relu\nimport os"},
        {"operator": 'aten::"+x+"'},
        {"operator": "aten::__class__"},
        {"operator": "aten::import"},
        {"operator": "nowhere"},
        {"overload": "default()\nimport os"},
        {"overload": "__call__"},
        {"arguments": (SlotUse(0), SlotUse(3), EVIL, False, False)},
        {"arguments": (SlotUse(0), SlotUse(3), "quote\"'\nimport os", False, False)},
        {"arguments": (SlotUse(0), SlotUse(3), 2**70, False, False)},
    ],
)
def test_hostile_names_and_arguments_are_refused(tmp_path, changes):
    with pytest.raises((TraceError, InputError)):
        generate([hostile(**changes)], tmp_path / "bad")
    assert not (tmp_path / "bad/benchmark.py").exists()


def test_hostile_labels_stay_within_their_comment(tmp_path, play):
    labels = (f"x\n{EVIL}\n", '"""\nimport os', "\\\n\u2028import os\r\nexit()", "a" * 9999)
    program = two_layers()
    named = tuple(replace(call, module=label) for call, label in zip(program.calls, labels, strict=False))
    assert len(named) == len(labels)
    generate([replace(program, calls=(*named, *program.calls[len(named) :]))], tmp_path / "labelled")
    for path in (tmp_path / "labelled").rglob("steps_*.py"):
        tree = ast.parse(path.read_text())
        names = {
            alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
        }
        assert names == {"torch"}
        assert all(len(line) < 200 for line in path.read_text().splitlines())
    play(tmp_path / "labelled")


@pytest.mark.parametrize("field", ["dtype", "device"])
def test_hostile_element_types_and_devices_are_refused(tmp_path, field):
    program = two_layers()
    slots = (replace(program.slots[0], **{field: "float32)\nimport os"}), *program.slots[1:])
    buffers = tuple(
        replace(buffer, device="cuda\nimport os") if field == "device" else buffer
        for buffer in program.buffers[:1]
    )
    other = replace(
        program, slots=slots, buffers=(*buffers, *program.buffers[1:], Buffer(4, "cuda", -1, 0, 0))
    )
    with pytest.raises(TraceError):
        generate([other], tmp_path / "bad")


def test_collectives_of_one_rank_need_no_launcher(tmp_path, play):
    generate([all_reduced(1)], tmp_path / "one")
    assert play(tmp_path / "one")["world_size"] == 1


def test_a_benchmark_of_several_ranks_plays_without_numpy_and_among_more_ranks(tmp_path):
    made = generate([all_reduced(2)], tmp_path / "two")
    assert play_fresh(made, 2, ["--repeat", "1", "--warm-up", "0"]).state == "ran"
    assert play_fresh(made, 3, ["--repeat", "0"]).state == "ran"
    alone = play_fresh(made, 1, ["--repeat", "0"])
    assert (alone.state, alone.is_alone) == ("ran", True)


def test_sizes_that_depend_on_the_number_of_ranks_are_refused_among_another(tmp_path):
    program = all_reduced(2)
    last = program.calls[-1]
    gathered = replace(last, collective=replace(last.collective, name="allgather"))
    made = generate([replace(program, calls=(*program.calls[:-1], gathered))], tmp_path / "two")
    failed = play_fresh(made, 3, ["--repeat", "0"])
    assert failed.state == "failed"
    assert "is of 2 ranks, and 3 were started" in failed.reason


def test_a_rank_whose_partner_never_comes_gives_up_and_says_what_to_do(tmp_path):
    generate([all_reduced(2)], tmp_path / "two")
    place = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    command = [sys.executable, "-I", str(tmp_path / "two" / "benchmark.py"), "--timeout", "1"]
    done = subprocess.run(command, env=os.environ | place, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "rank 1 of 2 did not meet the others within 1 s" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_benchmark_that_is_told_to_end_leaves_no_rank_behind(tmp_path):
    generate([all_reduced(2)], tmp_path / "two")
    command = [sys.executable, "-I", str(tmp_path / "two" / "benchmark.py"), "--repeat", "1000000"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as parent:
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
        while len(ranks := children.read_text(encoding="utf-8").split()) < 2:
            assert parent.poll() is None
        parent.terminate()
        assert parent.wait(30) == 143
    until = time.monotonic() + 30
    while left := [rank for rank in ranks if Path(f"/proc/{rank}").exists()]:
        assert time.monotonic() < until, left
        time.sleep(0.01)


def test_messages_between_two_ranks_are_never_offered_among_another_number(capsys):
    assert refused({"world_size": 2, "collectives": ["all_gather", "send"]}, 3) == 2
    told = capsys.readouterr().err
    assert "what its send exchange has no other end" in told
    assert "generate it again" not in told


def test_what_cannot_run_is_left_out_with_its_reason_and_the_rest_played(tmp_path):
    script = Script()
    given = script.given(4, 4)
    made = script.call("aten::mm", SlotUse(given), SlotUse(given), makes=(4, 4))
    lost = script.call("aten::mm", SlotUse(made), SlotUse(script.given(3, 3)), makes=(4, 3))
    script.call("aten::relu", SlotUse(lost), makes=(4, 3))
    proven = generate_proven(ReplayRequest(traces=()), [script.program()], tmp_path / "rest")
    assert proven.play.state == "ran"
    (skipped,) = proven.made.manifest["skipped"]
    assert (skipped["operator"], skipped["count"]) == ("aten::mm", 1)
    assert "cannot be multiplied" in skipped["reason"]
    assert proven.made.manifest["played"]["state"] == "ran"
    assert list(generated_lines(proven.made, proven.play))[-2:] == [
        "calls of the recording: 2 of 3, left out:",
        f"  1 × aten::mm: {skipped['reason']}",
    ]


def test_a_line_that_fails_is_traced_to_its_call(tmp_path):
    made = generate([two_layers(8)], tmp_path / "lines")
    (file,) = made.lines
    text = (tmp_path / "lines" / file).read_text().splitlines()
    line = next(place for place, one in enumerate(text, 1) if "aten_relu(" in one)
    rank, call = made.call_at(file, line)
    assert (rank, two_layers(8).calls[call].operator) == (0, "aten::relu")
    assert made.call_at(file, 1) is None


def test_operators_that_pytorch_alone_does_not_have_are_refused(tmp_path):
    with pytest.raises(InputError, match="not PyTorch's own"):
        generate([hostile(operator="company::secret")], tmp_path / "bad")


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("important")
    with pytest.raises(InputError, match="holds other files"):
        generate([two_layers()], tmp_path)


def test_no_program_is_refused(tmp_path):
    with pytest.raises(InputError, match="no program"):
        generate([], tmp_path / "none")
