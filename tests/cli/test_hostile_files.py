"""Every file that a command takes may be none, or damaged: each is one line and exit code 2."""

from __future__ import annotations

import gzip
import json
import lzma
import os
from pathlib import Path

import pytest

from perfcast.cli.main import run
from perfcast.units import MIB

REQUESTS = "serving llama3-8b --device h100-sxm --requests @.csv"
SEARCH = "search llama3-8b --cluster dgx-h100:8 --global-batch-size 64 --prices"
#: Commands; the word with a dot behind @ is the file, by its ending.
COMMANDS = f"""
    predict @.json --device a100
    predict gpt2 --device @.toml
    predict gpt2 --cluster @.toml:8 --plan dp=8
    predict @.py:build --device a100
    memory @.json --device a100
    {SEARCH} @.toml
    {SEARCH} @.json
    {SEARCH} @.csv
    shard @.csv --cluster dgx-h100:8
    shard @.json --cluster dgx-h100:8
    shard @.toml --cluster dgx-h100:8
    {REQUESTS}
    serving llama3-8b --device h100-sxm --requests @.jsonl
    trace info @.json
    trace explain @.json.gz
    trace forecast @.json --device a100
    trace chakra @.et
    trace anonymise @.json --out anonymous.json
    replay @.json
    replay trace.json --module @.py
    mesh discover --from @.json
    mesh discover --topology @.txt
    mesh cost --cluster dgx-h100:8 --collective all_reduce --bytes 1MB --profile @.json
    explain-result @.json
""".strip().splitlines()


def call(command: str, stem: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What the command says of the file, on one line."""
    code = run([word.replace("@", stem) for word in command.split()])
    said = capsys.readouterr()
    lines = [line for line in said.err.splitlines() if not line.endswith(" s")]  # how far it has come
    assert code == 2, said.err
    assert lines[-1].startswith(("error: ", "Error: "))
    assert "Traceback" not in said.err
    return said.err


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS, ids=str.strip)
def test_what_is_no_file_is_one_line(command: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ending = next(word for word in command.split() if "@" in word).partition("@")[2].partition(":")[0]
    (folder / f"zero{ending}").symlink_to("/dev/zero")
    (folder / f"folder{ending}").mkdir()
    assert "a device, not a file" in call(command, "zero", capsys)
    for stem in ("n" * 300, "nul\0byte", "gone", "folder", "/proc/self/mem/x"):
        call(command, stem, capsys)


READS = [command for command in COMMANDS if "@.py" not in command]
#: What a damaged or hostile file may hold.
CONTENTS = {
    "nothing": b"",
    "no text": b"\xff\xfe\x00\x80" * 20,
    "digits": b'{"model_type": "llama", "hidden_size": ' + b"9" * 5000 + b"}",
    "digits in a table": b"name,num_rows\na," + b"9" * 5000 + b"\n",
    "digits in TOML": b"[devices.x]\nyear = " + b"9" * 5000,
    "depth": b"[" * 100_000,
    "depth in TOML": b"a = " + b"[" * 5000 + b"]" * 5000,
    "a list": b"[1, 2, 3]",
    "a number": b"7",
    "NaN": b'{"model_type": "llama", "hidden_size": NaN, "schema": Infinity, "nodes": NaN}',
    "marks": b'{"[red]": "[/]", "\\u001b[31m": "\\u202e"}',
    "a key twice": b'{"model_type": "llama", "model_type": "gpt2"}',
    "packed": gzip.compress(b"{}")[:-5],
}


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("command", READS, ids=str.strip)
def test_what_is_damaged_is_one_line(
    command: str, content: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ending = next(word for word in command.split() if "@" in word).partition("@")[2].partition(":")[0]
    (folder / f"x{ending}").write_bytes(CONTENTS[content])
    call(command, "x", capsys)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
@pytest.mark.parametrize("command", ["trace info @.gz", REQUESTS])
def test_the_limit_of_every_file_is_one_option(
    command: str, pack, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / f"x{'.gz' if 'gz' in command else '.csv'}").write_bytes(pack(b" \n" * (4 * MIB)))
    assert "more than 1.00 MiB unpacked" in call(f"--max-file 1MiB {command}", "x", capsys)
    assert "--max-file: 'much' is no size" in call(f"--max-file much {command}", "x", capsys)
    assert "PERFCAST_MAX_FILE" not in os.environ


def test_a_deeply_nested_cluster_profile_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile: object = {}
    for _ in range(200):
        profile = {"axes": [profile]}
    (folder / "x.json").write_text(json.dumps(profile))
    said = call(next(one for one in COMMANDS if "mesh cost" in one), "x", capsys)
    assert "nested more than 64 deep" in said


def test_a_log_with_a_rank_of_thirty_digits_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from perfcast.errors import InputError
    from perfcast.measure.collectives.nccl_tests import load_nccl_log

    rank = f"#  Rank {'9' * 30} Group  0 Pid 1 on host device 0\n"
    (folder / "x.log").write_text(
        f"{rank}#  size count type redop root time algbw busbw #wrong\n"
        "1024 256 float sum -1 10.0 0.10 0.10 0\n# Avg bus bandwidth : 1\n"
    )
    with pytest.raises(InputError):
        load_nccl_log(folder / "x.log", collective="all_reduce")
