"""Rewrite the golden answers after a change that is meant to move them, and print old and new side by side.

    python tests/golden/rewrite.py [SUBJECT …]

What differs by rounding alone stays as it is written. Look at what moved before committing ``answers``: a
refactoring moves nothing.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from golden.ask import ANSWERS, differences, load
from golden.inputs import write_inputs
from golden.subjects import SUBJECTS, answers_of


def main(names: list[str]) -> int:
    """Rewrite some subjects, or all."""
    unknown = [name for name in names if name not in SUBJECTS]
    if unknown:
        print(f"unknown: {', '.join(unknown)}; known: {', '.join(SUBJECTS)}")
        return 2
    moved = 0
    for subject in names or SUBJECTS:
        with TemporaryDirectory() as folder:
            found = answers_of(subject, write_inputs(Path(folder)))
        moved += _rewrite(subject, found)
    print(f"{moved} answers moved, came or went")
    return 0


def _rewrite(subject: str, found: dict[str, Any]) -> int:
    kept, moved = load(subject), 0
    for name in sorted(kept.keys() | found.keys()):
        changes = list(differences(kept.get(name), found.get(name)))
        if not changes:
            found[name] = kept[name]
            continue
        moved += 1
        state = "" if name in kept and name in found else " (new)" if name in found else " (gone)"
        print(f"{subject}: {name}{state}")
        for path, old, new in changes if not state else ():
            print(f"    {path}: {old} → {new}{_by_how_much(old, new)}")
        if state:
            print(f"    {json.dumps(kept.get(name))} → {json.dumps(found.get(name))}"[:400])
    text = json.dumps(dict(sorted(found.items())), indent=1, ensure_ascii=False)
    ANSWERS.mkdir(exist_ok=True)
    (ANSWERS / f"{subject}.json").write_text(text + "\n", encoding="utf-8")
    return moved


def _by_how_much(old: Any, new: Any) -> str:
    both = all(isinstance(one, int | float) and not isinstance(one, bool) for one in (old, new))
    return f" ({new / old - 1:+.3%})" if both and old else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
