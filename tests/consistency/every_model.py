"""Every model of the catalog, every verb and mode: where equal questions have different answers.

    python tests/consistency/every_model.py [MODEL …]

takes about half an hour for the whole catalog; without ``--quick`` it captures every model's own modules too.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from consistency.questions import contradictions, list_questions
from perfcast.catalogs.models import load_models


def main(arguments: list[str]) -> int:
    """Print contradictions; the exit code says whether there are any."""
    quick = "--quick" in arguments
    names = [name for name in arguments if not name.startswith("--")] or list(load_models())
    total = 0
    for name in names:
        start, asked = time.perf_counter(), 0
        for question in list_questions(name, captured=not quick):
            asked += 1
            found = contradictions(question)
            total += len(found)
            if found:
                print(f"{question.name}:", *found, sep="\n    ", flush=True)
        print(f"{name}: {asked} questions in {time.perf_counter() - start:.1f} s", flush=True)
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
