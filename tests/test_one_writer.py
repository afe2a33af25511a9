"""One writer, ``perfcast.files``, and one printer, ``perfcast.printer``: nothing else writes or prints."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import perfcast

ROOT = Path(perfcast.__file__).parent
#: Rooms that are the writer and the printer.
OWN = ("files", "printer")
#: File → why it writes by itself.
WRITES = {
    "server/uploads.py": "a new file in a folder of its own, as it comes over the network",
    "server/processes/child.py": "streams of a process",
    "traces/record/recorder.py": "inside the recorded program, which imports nothing else of perfcast",
    "evidence/validate/traces/parts.py": "a folder of recordings, renamed when all of them are there",
    "measure/collectives/launch.py": "what a rank says, into a folder that goes with the run",
}
#: File → why it prints by itself.
PRINTS = {
    "replays/play/apart.py": "numbers, to the process that started it",
    "replays/generate/standalone/benchmark.py": "copied into a program that runs without perfcast",
    "searches/handover/fsdp2_program.py": "copied into a program that runs without perfcast",
}
_WRITING_METHODS = {
    "write_text",
    "write_bytes",
    "tofile",
    "write_parquet",
    "write_csv",
    "rename",
}
_WRITING_FUNCTIONS = {
    "os.open", "os.replace", "os.rename", "os.link", "shutil.copy", "shutil.copyfile", "shutil.copyfileobj",
    "shutil.move", "np.save", "np.savez", "np.savez_compressed", "torch.save", "json.dump", "pickle.dump",
}  # fmt: skip
_PRINTING = {"print", "click.echo", "click.secho", "rich.print"}
FILES = {
    path.relative_to(ROOT).as_posix(): path
    for path in sorted(ROOT.rglob("*.py"))
    if path.relative_to(ROOT).parts[0] not in OWN
}


@cache
def calls(path: Path) -> tuple[tuple[str, ast.Call], ...]:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return tuple((ast.unparse(node.func), node) for node in nodes if isinstance(node, ast.Call))


def is_of_writing(node: ast.Call) -> bool:
    """An opening whose mode says more than that a file is read."""
    given = [*node.args, *(one.value for one in node.keywords if one.arg == "mode")]
    modes = [one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return any(set(mode) <= set("rwaxbt+") and set(mode) & set("wax+") for mode in modes)


def writes(path: Path) -> Iterator[str]:
    for name, node in calls(path):
        last = name.rpartition(".")[2]
        is_opened = last == "open" and is_of_writing(node)
        in_memory = bool(node.args) and ast.unparse(node.args[0]) == "buffer"
        if (is_opened or name in _WRITING_FUNCTIONS or last in _WRITING_METHODS) and not in_memory:
            yield f"{name} in line {node.lineno}"


def prints(path: Path) -> Iterator[str]:
    for name, node in calls(path):
        is_stream = name in ("sys.stdout.write", "sys.stderr.write", "sys.stdout.buffer.write", "Console")
        if name in _PRINTING or is_stream:
            yield f"{name} in line {node.lineno}"


def test_files_are_written_whole_or_not_at_all():
    found = {file: lines for file, path in FILES.items() if (lines := list(writes(path)))}
    assert found.keys() == WRITES.keys(), (
        f"{found}: perfcast.files.writing writes atomically; a file that cannot take it stands in WRITES"
    )


def test_nothing_goes_to_the_terminal_as_it_is():
    found = {file: lines for file, path in FILES.items() if (lines := list(prints(path)))}
    assert found.keys() == PRINTS.keys(), f"{found}: perfcast.printer writes out what commands a terminal"
