"""``make bench``: one table of all goals, in which what fails and what is missed is said."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
TELLS = (
    "from goals import Row, report\n"
    "raise SystemExit(report([Row('seconds of it', {}, 's', 2.0, 'at most', 'us')]))"
)


@pytest.fixture
def every(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setenv("PYTHONPATH", str(BENCHMARKS))
    import every

    scripts = {
        "good": TELLS.format(1.5),
        "slow": TELLS.format(2.5),
        "broken": "raise SystemExit('no such device')",
        "silent": "print('done')",
        "garbled": "import os; open(os.environ['PERFCAST_BENCH_ROWS'], 'w').write('{')",
    }
    for name, text in scripts.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setattr(every, "FOLDER", tmp_path)
    monkeypatch.setattr(every, "BENCHMARKS", tuple(scripts))
    yield every
    for name in ("every", "goals"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("names", "code", "words"),
    [
        ("good", 0, "1 of 1 goals met; 0 of 1 benchmarks failed"),
        ("good,slow", 1, "1 of 2 goals met; 0 of 2 benchmarks failed"),
        ("broken", 1, "broken: exit code 1"),
        ("good,silent", 1, "silent: told no rows"),
        ("good,garbled", 1, "garbled: told rows that are none"),
    ],
)
def test_the_exit_code_says_what_the_table_says(
    every: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str], names: str, code: int, words: str
) -> None:
    path = tmp_path / "out" / "bench.json"
    assert every.main(["--only", names, "--json", str(path)]) == code
    assert words in capfd.readouterr().out
    held = json.loads(path.read_text())["benchmarks"]
    assert [one["name"] for one in held] == names.split(",")
    for one in held:
        assert [row["is_met"] for row in one["rows"]] == {"good": [True], "slow": [False]}.get(
            one["name"], []
        )
        assert bool(one["failure"]) == (one["name"] in ("broken", "silent", "garbled"))


def test_ctrl_c_keeps_what_is_finished_and_names_what_is_not(
    every: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = every.run

    def interrupted(script: Path, timeout: float) -> object:
        if script.stem == "slow":
            raise KeyboardInterrupt
        return run(script, timeout)

    monkeypatch.setattr(every, "run", interrupted)
    path = tmp_path / "bench.json"
    assert every.main(["--only", "good,slow,silent", "--json", str(path)]) == 130
    printed = capfd.readouterr().out
    assert "good: seconds of it" in printed
    assert "silent: ended by Ctrl-C" in printed
    held = json.loads(path.read_text())["benchmarks"]
    assert [len(one["rows"]) for one in held] == [1, 0, 0]


def test_all_benchmarks_of_the_table_are_there() -> None:
    text = (BENCHMARKS / "every.py").read_text()
    listed = text.partition("BENCHMARKS = (")[2].partition(")")[0].replace('"', "").replace(",", " ").split()
    assert listed
    assert all((BENCHMARKS / f"{name}.py").exists() for name in listed)
    assert all("return report(" in (BENCHMARKS / f"{name}.py").read_text() for name in listed)
