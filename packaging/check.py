"""Builds the wheel and the source archive, installs them bare on every Python that is here, and runs them.

``python packaging/check.py [PYTHON …]``, as ``3.12``; all that are here if none is named. What it proves:
the builds are the same byte for byte when made again; the wheel made of the source archive is the wheel; in
an empty environment and an empty folder perfcast answers. Packages come by the hashes of
``locks/perfcast.txt``. PyTorch comes where pip finds a build for processors alone, which ``locks/torch.txt``
knows; elsewhere what needs no PyTorch is run, and what needs it says so in one line.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / "packaging" / "locks"
PYTHONS = tuple(f"3.{minor}" for minor in (11, 12, 13, 14))
PLAN = "predict llama3-70b --cluster dgx-h100:64 --plan tp=8,pp=4,zero=1 --batch-size 128"
#: What needs no PyTorch → a word of its answer.
WITHOUT_TORCH = {
    "--version": "perfcast",
    PLAN: "Step",
    "memory llama3-8b --device h100-sxm --plan tp=8 --batch-size 8": "Needed",
    "mesh cost --cluster dgx-h100 --mesh dp=8 --collective all_reduce --bytes 64MiB": "all_reduce",
    "serving llama3-8b --device h100-sxm --request-rate 2 --input-length 512 --output-length 9": "output",
    "catalog devices": "h100-sxm",
}
WITH_TORCH = {
    "predict gpt2 --device h100-sxm --mode train --batch-size 4 --sequence-length 1024": "Step time"
}
CPU_TORCH = "+cpu"


def build(folder: Path) -> tuple[Path, Path]:
    """The wheel and the source archive; each made twice, and the wheel once more of the archive.

    Raises:
        SystemExit: Two that should be one differ.
    """
    for twin in ("", "again"):
        (folder / twin).mkdir(parents=True, exist_ok=True)
        (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(folder / twin), versions=["standard"])
        (archive,) = SdistBuilder(str(ROOT)).build(directory=str(folder / twin), versions=["standard"])
        made = (Path(wheel), Path(archive))
        first = (folder / made[0].name, folder / made[1].name)
        for one, other in zip(first, made, strict=True):
            _same(_digest(one), _digest(other), f"{one.name} and itself, built again")
    with tempfile.TemporaryDirectory() as unpacked:
        shutil.unpack_archive(first[1], unpacked, filter="data")
        (checkout,) = Path(unpacked).iterdir()
        (again,) = WheelBuilder(str(checkout)).build(directory=unpacked, versions=["standard"])
        _same(_content(first[0]), _content(Path(again)), "the wheel and that of the source archive")
    shutil.rmtree(folder / "again")
    return first


def pythons(wanted: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Version and program of those that are wanted and here."""
    for version in wanted or PYTHONS:
        program = _program(version)
        if program is None and wanted:
            raise SystemExit(f"there is no Python {version} here")
        if program is None:
            print(f"Python {version}: not here, not checked", flush=True)
        else:
            yield version, program


def _program(version: str) -> str | None:
    """Where a Python is, also one that pyenv holds and has not chosen."""
    held = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    for program in (shutil.which(f"python{version}"), *map(str, held)):
        if program and subprocess.run([program, "-c", ""], capture_output=True, check=False).returncode == 0:
            return program
    return None


def check(version: str, program: str, wheel: Path) -> None:
    """Install and run on one Python.

    Raises:
        SystemExit: Something does not install, or does not answer.
    """
    with tempfile.TemporaryDirectory(prefix="perfcast-bare-") as made:
        folder = Path(made)
        _run([program, "-m", "venv", str(folder / "venv")])
        pip = [
            str(folder / "venv" / "bin" / "pip"),
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--no-compile",
        ]
        _run([*pip, "--require-hashes", "--requirement", str(LOCKS / "perfcast.txt")])
        has_torch = _install_torch(pip, folder)
        _run([*pip, str(wheel)])
        for command, word in WITHOUT_TORCH.items() | (WITH_TORCH.items() if has_torch else set()):
            said = _run([str(folder / "venv" / "bin" / "perfcast"), *command.split()], folder)
            if word not in said.stdout:
                raise SystemExit(
                    f"Python {version}: perfcast {command} does not say '{word}':\n{said.stdout}"
                )
        if not has_torch:
            _expect_one_line(folder)
        print(
            f"Python {version}: installed bare, answers{'' if has_torch else ' (without PyTorch)'}",
            flush=True,
        )


def _install_torch(pip: Sequence[str], folder: Path) -> bool:
    """Whether a build for processors is there for this Python; one for CUDA is gigabytes."""
    report, known = folder / "torch.json", LOCKS / "torch.txt"
    asked = [*pip, "--constraint", str(ROOT / "constraints.txt"), "--report", str(report), "torch"]
    told = subprocess.run([*asked, "--dry-run"], capture_output=True, text=True, check=False)
    if told.returncode or CPU_TORCH not in report.read_text():
        return False
    _run(asked)
    _run([sys.executable, str(ROOT / "packaging" / "verify.py"), str(report), str(known)])
    return True


def _expect_one_line(folder: Path) -> None:
    """What needs PyTorch, where it is not installed."""
    command = [str(folder / "venv" / "bin" / "perfcast"), *next(iter(WITH_TORCH)).split()]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if said.returncode != 2 or "Traceback" in said.stderr:
        raise SystemExit(
            f"without PyTorch, '{' '.join(command)}' ends with {said.returncode}:\n{said.stderr}"
        )


def _run(command: Sequence[str], folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {
        name: text for name, text in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")
    }
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _content(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}


def _same(one: object, other: object, what: str) -> None:
    if one != other:
        raise SystemExit(f"{what} differ")


def main() -> None:
    """Build, install, run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "pythons", nargs="*", metavar="PYTHON", help="such as 3.12; default: all that are here"
    )
    options = parser.parse_args()
    wheel, archive = build(ROOT / "out" / "dist")
    for made in (wheel, archive):
        print(f"{_digest(made)}  {made}", flush=True)
    for version, program in pythons(options.pythons):
        check(version, program, wheel)


if __name__ == "__main__":
    main()
