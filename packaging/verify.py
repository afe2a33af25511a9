"""Whether what pip has just installed is what a lock names: ``verify.py REPORT LOCK``, with pip's own report.

For a package of which several builds are known and pip is to choose: with ``--require-hashes`` it would take
the one whose hash its index tells, not the one that fits the machine.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main(report: Path, lock: Path) -> int:
    """The exit code: 0 where every file has a hash of the lock."""
    known = lock.read_text()
    for installed in json.loads(report.read_text())["install"]:
        digest = installed["download_info"]["archive_info"]["hashes"]["sha256"]
        if f"sha256:{digest}" not in known:
            print(
                f"error: {lock} has no hash of {installed['download_info']['url']} (sha256:{digest}). "
                f"Do not use this environment; add the hash if you know where the file is from.",
                file=sys.stderr,
            )
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
