"""Asks questions in a fresh process, and writes the JSON of each into a folder.

python tests/same_bytes.py INPUTS OUTPUTS [NAME …]
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

CPUS = "SAME_BYTES_CPUS"


def main(inputs: str, outputs: str, names: list[str]) -> int:
    """0: all were answered."""
    if os.environ.get(CPUS):
        os.sched_setaffinity(0, set(list(os.sched_getaffinity(0))[: int(os.environ[CPUS])]))
    os.chdir(inputs)
    from golden.verbs import CASES
    from perfcast.cli.main import run

    codes = []
    for name in names or CASES:
        place = Path(outputs) / f"{name.replace(' ', '-').replace(',', '')}.json"
        words = CASES[name].command.replace("@", "").removesuffix(" --json -").split()
        codes.append(run([*words, "--json", str(place)]))
        if codes[-1]:
            print(name, codes[-1], file=sys.stderr)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
