"""Examples of the documentation: run, compared with what their pages show, or written anew.

    python docs/tools/examples.py            # what differs
    python docs/tools/examples.py --write    # … is written into the pages (PAGE.md: into that one)

A ``console`` block has commands (``$ perfcast …``), each with what it prints at 90 columns; a line ``…``
stands for lines that are left out. A ``python`` block that a ``text`` block follows prints that; blocks of a
page share their names, from top to bottom. Times that this machine took are not compared.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"```console\n(.*?)```|```python\n(.*?)```(?:\n+```text\n(.*?)```)?", re.DOTALL)
_ELLIPSIS = "…"


@dataclass(frozen=True)
class Example:
    """What is asked, what the page shows of the answer, and where.

    Attributes:
        asked: A command, or a program.
        shown: Lines as the page has them; None where nothing is shown (the example only has to run).
        start, end: Of the shown text in the page.
    """

    page: Path
    asked: str
    is_command: bool
    shown: str | None
    start: int
    end: int

    @property
    def name(self) -> str:
        """For the list of tests."""
        return f"{self.page.name}: {self.asked.splitlines()[0][:90]}"


def pages() -> list[Path]:
    """Every page that may have examples."""
    below = (path for path in (ROOT / "docs").rglob("*.md") if "tools" not in path.parts)
    return [ROOT / "README.md", *sorted(below)]


def examples_of(page: Path) -> list[Example]:
    """The examples of a page, from top to bottom."""
    found = []
    for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        if block[1] is not None:
            found += list(_commands(page, block[1], block.start(1)))
        else:
            shown = block[3]
            found.append(Example(page, block[2], False, shown, *(block.span(3) if shown else (0, 0))))
    return found


def _commands(page: Path, block: str, offset: int) -> Iterator[Example]:
    starts = [match.start() for match in re.finditer(r"^\$ ", block, re.MULTILINE)]
    for start, end in zip(starts, [*starts[1:], len(block)], strict=True):
        asked, _, shown = block[start:end].partition("\n")
        while asked.endswith("\\"):
            more, _, shown = shown.partition("\n")
            asked = asked[:-1] + more.strip()
        if asked.startswith("$ perfcast "):
            yield Example(page, asked[2:], True, shown, offset + end - len(shown), offset + end)


def run_example(example: Example, names: dict[str, object]) -> str:
    """What it prints (to standard error where nothing else), without spaces at ends of lines.

    Args:
        names: Of the page's programs so far; a program adds its own.
    """
    printed, said = io.StringIO(), io.StringIO()
    streams = contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said)
    with streams[0], streams[1], contextlib.chdir(ROOT), _columns(90):
        if example.is_command:
            _run_command(example.asked)
        else:
            exec(compile(example.asked, str(example.page), "exec"), names)
    text = printed.getvalue() or said.getvalue()
    lines = [line.rstrip() for line in text.splitlines()]
    return "\n".join(lines).strip("\n") + "\n"


def _run_command(asked: str) -> None:
    from perfcast.cli.main import run

    code = run(shlex.split(asked, comments=True)[1:])
    if code not in (0, 2, 3):
        raise ValueError(f"exit code {code} of: {asked}")


@contextlib.contextmanager
def _columns(count: int) -> Iterator[None]:
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(count)
    try:
        yield
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before


def as_shown(example: Example, printed: str) -> str:
    """As much of what was printed as the page shows.

    ``…`` on a line of its own stands for lines that are left out; what follows it is found by its first line.
    """
    if example.shown is None:
        return ""
    if _ELLIPSIS not in example.shown.splitlines():
        return printed
    lines = printed.splitlines()
    first, *others = example.shown.strip("\n").split(f"\n{_ELLIPSIS}")
    parts = [lines[: len(first.splitlines())]]
    for other in filter(None, (part.strip("\n").splitlines() for part in others)):
        start = next((n for n, line in enumerate(lines) if line == other[0]), len(lines))
        parts.append(lines[start : start + len(other)])
    ends = [_ELLIPSIS] if example.shown.rstrip().endswith(_ELLIPSIS) else []
    return f"\n{_ELLIPSIS}\n".join(["\n".join(part) for part in parts] + (ends and [""])).rstrip("\n") + "\n"


def same(shown: str, printed: str) -> bool:
    """Whether two texts say the same, but for times that this machine took."""
    return _without_clock(shown) == _without_clock(printed)


def _without_clock(text: str) -> str:
    return re.sub(r"(\bin|\bwithin|took) \d[\d.]* (ms|s)\b", r"\1 …", text).strip()


def rewrite(page: Path) -> int:
    """Write what the examples print into their page; the number that differed."""
    names: dict[str, object] = {}
    text, changes = page.read_text(encoding="utf-8"), []
    for example in examples_of(page):
        printed = as_shown(example, run_example(example, names))
        if example.shown is not None and not same(example.shown, printed):
            changes.append((example.start, example.end, printed))
    for start, end, printed in reversed(changes):
        text = text[:start] + printed + text[end:]
    page.write_text(text, encoding="utf-8")
    return len(changes)


def main(arguments: list[str]) -> int:
    """Compare, or write; 1 where something differed."""
    chosen = [Path(word).resolve() for word in arguments if not word.startswith("--")] or pages()
    differing = 0
    for page in chosen:
        if "--write" in arguments:
            count = rewrite(page)
            differing += count
            print(f"{page.relative_to(ROOT)}: {count} written anew")
            continue
        names: dict[str, object] = {}
        for example in examples_of(page):
            printed = as_shown(example, run_example(example, names))
            if example.shown is not None and not same(example.shown, printed):
                differing += 1
                print(f"--- {example.name}\n{example.shown}+++ now\n{printed}")
    return 0 if "--write" in arguments else int(differing > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
