"""Draw inputs for one target: ``python tests/fuzz/drive.py TARGET --runs N``.

Counts and faults go into ``out/fuzz``; a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.dont_write_bytecode = True  # an import is no file written by an input

from fuzz.engines import Run, has_atheris, with_atheris, with_hypothesis  # noqa: E402
from fuzz.listing import KINDS, target_named  # noqa: E402
from fuzz.oracle import check, prepare  # noqa: E402
from fuzz.target import Target  # noqa: E402

#: Memory that a process may map beyond what it has when inputs begin.
MORE_BYTES = 6_000_000_000


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 0
    if pages:
        limit = pages * resource.getpagesize() + MORE_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", help="name of a target; 'list' prints them")
    parser.add_argument("--runs", type=int, default=100_000, help="inputs in all")
    parser.add_argument(
        "--engine", choices=("atheris", "hypothesis"), help="usually atheris where it is installed"
    )
    parser.add_argument("--out", type=Path, default=Path("out/fuzz"), help="folder of counts and faults")
    parser.add_argument(
        "--input", type=Path, help="give the target this one input, and print what becomes of it"
    )
    return parser.parse_args()


def main() -> None:
    """Draw inputs until there are enough of them."""
    asked = _arguments()

    engine = asked.engine or ("atheris" if has_atheris() else "hypothesis")
    if asked.engine is None and engine == "hypothesis":
        print("atheris is not installed: hypothesis draws the inputs", file=sys.stderr)
    if asked.target == "list":
        from fuzz.listing import targets

        print("\n".join(targets()))
        return
    target = _prepared(asked.target, follows=engine == "atheris" and asked.input is None)
    if asked.input:
        check(target, asked.input.read_bytes())
        return
    _limit_memory()
    run = Run(target, asked.out, asked.runs, engine)
    if engine == "atheris":
        with_atheris(run)
    while not run.is_over:
        with_hypothesis(target, min(run.wanted - run.cases, 20_000), run.add)
    os._exit(0)


def _prepared(name: str, *, follows: bool) -> Target:
    """A target that has read its seeds; what it imports for that is followed where coverage is."""
    with contextlib.ExitStack() as held:
        if follows:
            import atheris

            held.enter_context(atheris.instrument_imports(include=list(KINDS[name.partition("/")[0]][1])))
        target = target_named(name)
        prepare(target)
    return target


if __name__ == "__main__":
    main()
