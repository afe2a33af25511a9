"""Rewrite the golden forecasts after a change that is meant to move them, and print how far they moved.

    python tests/golden/rewrite.py

Look at what moved before committing ``forecasts.json``: a refactoring moves nothing.
"""

from __future__ import annotations

import json

from forecasts import FILE, REQUESTS, figures_of


def main() -> None:
    before = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    after = {name: figures_of(name) for name in REQUESTS}
    FILE.write_text(json.dumps(after, indent=2) + "\n", encoding="utf-8")
    moved = 0
    for name, figures in after.items():
        for key, value in figures.items():
            old = before.get(name, {}).get(key)
            if old != value:
                moved += 1
                print(f"{name}: {key} {old} → {value}" + (f" ({value / old - 1:+.3%})" if old else ""))
    print(f"{moved} figures moved; wrote {FILE}")


if __name__ == "__main__":
    main()
