"""Writes the locks: what is installed, every file of it by its SHA-256.

``constraints.txt`` says the versions, by hand; ``uv`` resolves what pyproject.toml asks for within them, for
every system and Python, and asks the index for the hashes. After a change of either: ``make lock``. The parts
are those that are installed apart (see the Makefile):

- ``perfcast.txt``: what perfcast itself needs, without PyTorch.
- ``dev.txt``: the same, and what its tests, checks and documentation need.
- ``torch.txt``: PyTorch, from PyPI, and its builds for processors alone.
- ``cuda.txt``: what PyTorch's build for CUDA needs beside.
- ``extras.txt``: optional packages that no test needs.
- ``tools.txt``: ``uv``, and what ``make sbom`` and ``make audit`` run, in an environment of their own.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / "packaging" / "locks"
#: The oldest Python that all of the tools run on.
OLDEST_PYTHON = "3.11.7"
EXTRAS = ("ray", "fuzz")
#: What comes with PyTorch's build for CUDA alone, beside what its dependencies are called.
OF_CUDA = re.compile(r"(nvidia-|cuda-|triton$|torch$)")
#: PyTorch's builds for processors, of https://download.pytorch.org/whl/cpu.
CPU_BUILDS = {
    "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl": (
        "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b"
    ),
}
HEAD = "# Written by packaging/lock.py from pyproject.toml and constraints.txt; pip checks every hash.\n"


def resolve(source: Path, *extras: str) -> dict[str, str]:
    """Name of a package → its lines of a lock."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "lock.txt"
        command = [
            sys.executable, "-m", "uv", "pip", "compile", str(source), "--quiet", "--universal",
            "--no-annotate", "--no-header", "--generate-hashes", "--python-version", OLDEST_PYTHON,
            "--constraint", str(ROOT / "constraints.txt"), "--output-file", str(out),
            "--default-index", "https://pypi.org/simple",
            *(word for extra in extras for word in ("--extra", extra)),
        ]  # fmt: skip
        subprocess.run(command, check=True, cwd=ROOT)
        return dict(packages_in(out.read_text()))


def packages_in(text: str) -> Iterator[tuple[str, str]]:
    """Each package of a lock with its lines."""
    for block in re.split(r"\n(?=[A-Za-z0-9])", text.strip()):
        if block and not block.startswith("#"):
            yield re.split(r"[=<>\[ ;]", block, maxsplit=1)[0].lower().replace("_", "-"), block


def main() -> None:
    """Resolve, split, write."""
    project = ROOT / "pyproject.toml"
    own, dev, every = (resolve(project, *extras) for extras in ((), ("dev",), ("dev", *EXTRAS)))
    is_cuda = {name for name in every if OF_CUDA.match(name)}
    torch = every["torch"] + "".join(f" \\\n    --hash=sha256:{digest}" for digest in CPU_BUILDS.values())
    write("torch", {"torch": torch})
    write("cuda", {name: every[name] for name in is_cuda - {"torch"}})
    write("perfcast", {name: text for name, text in own.items() if name not in is_cuda})
    write("dev", {name: text for name, text in dev.items() if name not in is_cuda})
    write("tools", resolve(ROOT / "packaging" / "tools.in"))
    write("extras", {name: text for name, text in every.items() if name not in dev.keys() | is_cuda})


def write(name: str, packages: dict[str, str]) -> None:
    """One lock, sorted."""
    LOCKS.mkdir(exist_ok=True)
    text = HEAD + "".join(f"{packages[key]}\n" for key in sorted(packages))
    (LOCKS / f"{name}.txt").write_text(text)
    print(f"{name}: {len(packages)} packages")


if __name__ == "__main__":
    main()
