"""Outputs of every command: never over an input, never two on one place, never half."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from perfcast.cli.main import cli, run
from perfcast.cli.options.places import OutputPlace

#: Options and arguments with a file's or folder's name that are read.
READ = {
    "calibrate": set(), "catalog": set(), "data summary": {"folders"}, "explain-result": {"file"},
    "gpu-check": {"source"},
    "measure kernels": {"source"},
    "mesh cost": {"profile", "data"}, "mesh discover": {"source", "topology"}, "mesh profile": {"logs"},
    "predict": {"weights"}, "published": {"data"}, "replay": {"timeline", "values", "module"},
    "scale": {"data"}, "search": {"prices"}, "serving": {"requests"}, "shard": {"indices"},
    "trace forecast": {"overheads"},
    "trace info": {"paths"}, "train": {"folders"}, "validate": {"data", "train_data", "weights"},
}  # fmt: skip


def commands(group: click.Group = cli, name: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for one in group.list_commands(context):
        command = group.get_command(context, one)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{name}{one} ")
        else:
            yield f"{name}{one}", command


@pytest.mark.parametrize(
    ("name", "command"), list(commands()), ids=lambda one: one if isinstance(one, str) else ""
)
def test_every_option_that_names_a_file_is_read_or_is_guarded(name: str, command: click.Command):
    assert hasattr(command.callback, "is_guarded")
    named = {
        str(one.name)
        for one in command.params
        if (one.metavar or "").startswith(("FILE", "DIR", "PATH")) and not isinstance(one.type, OutputPlace)
    }
    assert named == READ.get(name, set())


@pytest.fixture
def here(tiny: str, tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.json").symlink_to("config.json")
    os.link("config.json", "hard.json")
    return tmp_path


PREDICT = ("predict", "config.json", "--device", "a100")


@pytest.mark.parametrize("option", ["--json", "--html", "--timeline"])
@pytest.mark.parametrize("name", ["config.json", "link.json", "hard.json"])
def test_no_output_destroys_an_input(here: Path, option: str, name: str, capsys):
    before = (here / "config.json").read_bytes()
    assert run([*PREDICT, option, name]) == 2
    assert "which is read; name another file" in capsys.readouterr().err
    assert (here / "config.json").read_bytes() == before


def test_no_output_destroys_what_lies_in_a_folder_that_is_read(here: Path, capsys):
    folder = here / "model"
    folder.mkdir()
    shutil.copy(here / "config.json", folder)
    before = (folder / "config.json").read_bytes()
    assert run(["predict", str(folder), "--device", "a100", "--json", str(folder / "config.json")]) == 2
    assert "this run has read it" in capsys.readouterr().err
    assert (folder / "config.json").read_bytes() == before


@pytest.mark.parametrize(
    "options",
    [
        "--json z --html z", "--json z --timeline ./z", "--json - --timeline -",
        "--html z.svg --picture z.svg",
        "--html z.svg --picture z.svg:timeline", "--json link --html other", "--json - --html /dev/stdout",
    ],
)  # fmt: skip
@pytest.mark.usefixtures("here")
def test_one_place_holds_one_document(options: str, capsys):
    Path("other").write_text("")
    Path("link").symlink_to("other")
    assert run([*PREDICT, *options.split()]) == 2
    assert "one place holds one document" in capsys.readouterr().err
    assert not Path("z").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([*PREDICT, "--picture", "-"], "'-' is no picture"),
        ([*PREDICT, "--chakra", "-"], "is standard output, which it cannot be written to"),
        (["catalog", "new-device", "-"], "is standard output, which it cannot be written to"),
        ([*PREDICT, "--json", ""], "it names nothing"),
        ([*PREDICT, "--json", "/dev/null/x"], "/dev/null is no folder"),
        ([*PREDICT, "--json", "n" * 300], "no name is so long"),
        ([*PREDICT, "--html", "."], "it is a folder"),
        ([*PREDICT, "--json", "/proc/none"], "cannot write"),
    ],
)
@pytest.mark.usefixtures("here")
def test_a_place_that_takes_no_document_is_one_line(arguments: list[str], says: str, capsys):
    before = set(Path().iterdir())
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert set(Path().iterdir()) == before


@pytest.mark.parametrize("option", ["--json", "--html", "--timeline"])
@pytest.mark.usefixtures("here")
def test_a_document_on_standard_output_stands_alone(option: str, capsys):
    assert run([*PREDICT, option, "-"]) == 0
    out = capsys.readouterr().out
    assert out.lstrip()[0] in "{<"
    assert out.rstrip()[-1] in "}>"
    assert not Path("-").exists()


def shell(line: str, **variables: str) -> subprocess.CompletedProcess[str]:
    words = f"exec {sys.executable} -m perfcast {line}"
    return subprocess.run(
        ["bash", "-c", words],
        capture_output=True, text=True, timeout=120, check=False, errors="surrogateescape",
        env={**os.environ, **variables},
    )  # fmt: skip


LISTING = "catalog devices"


@pytest.mark.parametrize("command", [LISTING, f"{LISTING} --json -", "--help", "catalog schemas memory"])
@pytest.mark.parametrize(
    ("stream", "says"), [(">/dev/full", "no space left on device"), (">&-", "it is closed")]
)
def test_standard_output_that_takes_nothing_is_one_line(command: str, stream: str, says: str):
    done = shell(f"{command} {stream}")
    if command == "--help" and stream == ">&-":
        return  # click says nothing where nothing can be said
    assert done.returncode == 2
    assert done.stderr == f"error: cannot write to standard output: {says}\n"


def test_nobody_who_reads_on_is_no_error():
    for command in (LISTING, f"{LISTING} --json -", "--help"):
        done = subprocess.run(
            ["bash", "-c", f"{sys.executable} -m perfcast {command} | true; exit ${{PIPESTATUS[0]}}"],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")


def test_errors_that_nobody_can_be_told_change_no_exit_code():
    for stream in ("2>&-", "2>/dev/full"):
        assert shell(f"catalog devices nonsense {stream}").returncode == 2


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_encoding_shows_every_text(encoding: str):
    done = shell("catalog models llama3-8b", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.usefixtures("here")
def test_a_full_disk_leaves_no_half_file():
    before = set(Path().iterdir())
    done = subprocess.run(
        [sys.executable, "-m", "perfcast", "catalog", "devices", "--json", "devices.json"],
        capture_output=True, text=True, timeout=120, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot write 'devices.json': file too large")
    assert "Traceback" not in done.stderr
    assert set(Path().iterdir()) == before


@pytest.mark.usefixtures("here")
def test_names_from_files_command_no_terminal(capsys):
    hostile = "\x1b[31m\x9b2J\u202e"
    Path(f"a{hostile}.json").write_text(Path("config.json").read_text())
    for arguments in (
        ["predict", f"a{hostile}.json", "--device", "a100"],
        ["predict", f"b{hostile}.json", "--device", "a100"],
        ["predict", "gpt2", "--device", hostile],
        ["predict", "gpt2", "--device", "a100", f"--{hostile}"],
        ["memory", f"a{hostile}.json", "--device", "a100", "--brief"],
        ["trace", "info", f"a{hostile}.json"],
    ):
        run(arguments)
        out, err = capsys.readouterr()
        assert out or err
        assert not set(out + err) & set(hostile.replace("[31m", "").replace("2J", ""))
