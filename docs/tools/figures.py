"""Write ``docs/accuracy-sample.md``: each suite's figures on the rows that perfcast ships, with its protocol.

python docs/tools/figures.py              # ten minutes; make docs-figures
python docs/tools/figures.py memory       # one suite anew, the others as they are
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perfcast.cli.main import run

PAGE = Path(__file__).resolve().parents[1] / "accuracy-sample.md"
#: What is scored by suite, and the groups of its summary that are shown.
SUITES = {
    "kernels": ("Kernels of many devices and frameworks", ("all", "operation")),
    "neusight": (
        "Kernels and whole steps of the NeuSight study, fp32",
        ("all", "mode, device", "distribution"),
    ),
    "memory": ("Peaks of training runs", ("metric, source",)),
    "collectives": ("Collectives of many systems", ("all", "device")),
    "published": ("Step times of published training runs", ("all", "source")),
    "vision": ("Steps of BERT, and of image models where timm is installed", ("all", "model, mode")),
    "serving": ("Times under load", ("operation", "half, operation")),
}
INTRODUCTION = """# Every suite, on rows that are shipped

perfcast ships a few measured rows of tables whose licences let it (NOTICE names them), so that anyone can
run every suite:

```sh
perfcast validate memory             # --data DIR takes tables of yours in its place
perfcast data summary --data sample  # what the rows are
```

**What this page is worth.** It shows that the suites run and what their figures look like. The rows are few,
and `learned` was fitted to the tables that most of its kernels come from; each protocol says what was fitted
on what. Figures from whole tables, and from measurements that were kept back, are on
[the page about accuracy](accuracy.md).

`make docs-figures` writes this page. Percent; *in* is the share of measurements inside the 90 % interval.
"""


def section_of(suite: str) -> str:
    """A suite's tables and protocol as Markdown."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        if run(["validate", suite, "--data", "sample", "--json", str(path)]) != 0:
            raise RuntimeError(f"perfcast validate {suite} failed")
        result = json.loads(path.read_text(encoding="utf-8"))
    title, groups = SUITES[suite]
    lines = [f"## {title}", "", f"`perfcast validate {suite}`", ""]
    for group in groups:
        lines += table_of(result["summary"], group)
    return "\n".join([*lines, *protocol_of(result["protocol"])])


def table_of(summary: Sequence[Mapping[str, Any]], group: str) -> list[str]:
    """Lines of one group's table; entries of a single row are counted below it, and stand under *all*."""
    entries = [entry for entry in summary if entry["group"] == group and entry.get("n")]
    single = sorted({entry["value"] for entry in entries if entry["n"] == 1})
    entries = [entry for entry in entries if entry["n"] > 1]
    if not entries:
        return []
    head = [
        f"| Predictor | {group.capitalize()} | Rows | Mean | Median | 90th | In |",
        "|---|---|---|---|---|---|---|",
    ]
    others = f"{len(single)} more with one row each, in the figures of all rows alone."
    beside = [others, ""] if single else []
    return [*head, *(_row(entry) for entry in entries), "", *beside]


def _row(entry: Mapping[str, Any]) -> str:
    shares = [entry.get(f"{name}_absolute_relative_error") for name in ("mean", "median", "p90")]
    figures = [f"{100 * share:.1f}" if share is not None else "–" for share in shares]
    inside = f"{100 * entry['coverage']:.0f}" if entry.get("coverage") is not None else "–"
    return (
        f"| {entry['predictor']} | {entry['value']} | {entry['n']:,} | "
        + " | ".join([*figures, inside])
        + " |"
    )


def protocol_of(protocol: Mapping[str, Any]) -> list[str]:
    """What was forecast from what, and fitted on what."""
    lines = ['??? note "Protocol"', ""]
    for name, said in protocol.items():
        lines.append(f"    - **{name.replace('_', ' ')}**: {_said(said)}")
    return [*lines, ""]


def _said(said: Any) -> str:
    if isinstance(said, Mapping):
        return "; ".join(f"{name}: {_said(inner)}" for name, inner in said.items())
    if isinstance(said, str):
        return re.sub(r"([*_<])", r"\\\1", said)
    return ", ".join(_said(inner) for inner in said) if isinstance(said, list) else str(said)


def sections_of(page: str) -> dict[str, str]:
    """The page's sections by their suite."""
    parts = re.split(r"^(?=## )", page, flags=re.MULTILINE)[1:]
    found = ((re.search(r"`perfcast validate (\w+)`", part), part) for part in parts)
    return {match[1]: part for match, part in found if match}


def main(chosen: Sequence[str]) -> None:
    """Write the page, or some of its sections anew."""
    before = sections_of(PAGE.read_text(encoding="utf-8")) if PAGE.is_file() else {}
    sections = [
        section_of(suite) if suite in (chosen or SUITES) or suite not in before else before[suite]
        for suite in SUITES
    ]
    PAGE.write_text(
        INTRODUCTION + "\n" + "\n".join(part.rstrip("\n") + "\n" for part in sections), encoding="utf-8"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
