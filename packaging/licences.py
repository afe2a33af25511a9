"""The licence of every package of a lock, as a table: ``licences.py > docs/reference/licences.md``.

Read off the metadata of the packages that are installed (``make test`` installs them); what those leave out
stands in ``STATED``. A licence that is not among ``ALLOWED`` ends this with exit code 1.
"""

from __future__ import annotations

import re
import sys
from importlib import metadata
from pathlib import Path

LOCKS = Path(__file__).parent / "locks"
#: Licences under which others' packages may be used and passed on beside perfcast, unchanged.
ALLOWED = {
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "CNRI-Python", "ISC", "MIT",
    "MIT-CMU", "MPL-2.0", "PSF-2.0", "Public domain", "Zlib",
}  # fmt: skip
#: As packages name them → SPDX.
USUAL = {
    "apache 2.0": "Apache-2.0", "apache 2.0 license": "Apache-2.0", "apache software license": "Apache-2.0",
    "apache license 2.0": "Apache-2.0", "apache license, version 2.0": "Apache-2.0",
    "bsd": "BSD-3-Clause", "bsd license": "BSD-3-Clause", "3-clause bsd license": "BSD-3-Clause",
    "isc license (iscl)": "ISC", "mit license": "MIT", "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0", "public domain": "Public domain",
    "apache-2.0 with llvm-exception": "Apache-2.0",
}  # fmt: skip
#: Packages whose metadata do not say it plainly → licence, with where it is said.
STATED = {
    "resvg-py": "MIT",  # the licence file in its wheel
    "docutils": "BSD-2-Clause AND Public domain",  # under the GPL is an Emacs mode alone
    "appnope": "BSD-2-Clause",  # macOS alone; pypi.org/project/appnope
    "colorama": "BSD-3-Clause",
    "httpx2-jsfetch": "BSD-3-Clause",  # browsers' Python alone; pypi.org/project/httpx2-jsfetch
    "cffi": "MIT",  # PyPy's loops alone; pypi.org/project/cffi
    "pycparser": "BSD-3-Clause",
    "tzdata": "Apache-2.0",
}


def locked(lock: Path) -> dict[str, str]:
    """Package → version."""
    return {
        name.lower().replace("_", "-"): version
        for name, version in re.findall(r"^([A-Za-z0-9._-]+)==([^ \n]+)", lock.read_text(), re.MULTILINE)
    }


def licence_of(name: str) -> str:
    """As an SPDX expression, '' where it is not known."""
    if name in STATED:
        return STATED[name]
    try:
        told = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return ""
    groups = [text.rpartition(" :: ")[2] for text in told.get_all("Classifier") or [] if "License" in text]
    said = told["License-Expression"] or " AND ".join(groups) or (told["License"] or "").split("\n")[0]
    parts = re.split(r"( AND | OR |[()])", said) if told["License-Expression"] else said.split(" AND ")
    glue = "" if told["License-Expression"] else " AND "
    return glue.join(USUAL.get(part.strip().lower(), part) for part in parts)


def unknown_in(licence: str) -> list[str]:
    """What of an expression is not allowed; of alternatives one is enough."""
    words = re.split(r" AND | OR |[()]", licence)
    return [word for word in (word.strip() for word in words) if word and word not in ALLOWED] or (
        [] if licence else ["?"]
    )


def main() -> int:
    """Write the table; the exit code."""
    own, every = locked(LOCKS / "perfcast.txt"), locked(LOCKS / "dev.txt")
    every |= locked(LOCKS / "torch.txt")
    print("# Licences of what perfcast is built on\n")
    print(
        "Written by `python packaging/licences.py` from the packages' own metadata. perfcast contains none:"
    )
    print("pip installs them beside it. *tests*: what only the tests, the page or the documentation need.\n")
    print("| package | version | licence | for |\n| --- | --- | --- | --- |")
    bad: list[str] = []
    for name in sorted(every):
        licence = licence_of(name)
        bad += [f"{name}: {word}" for word in unknown_in(licence)]
        use = "perfcast" if name in own or name == "torch" else "tests"
        print(f"| {name} | {every[name]} | {licence} | {use} |")
    print(
        "\nPyTorch's build for CUDA brings NVIDIA's libraries under NVIDIA's own licences "
        "(`packaging/locks/cuda.txt`); its build for processors brings none."
    )
    for line in bad:
        print(f"not an allowed licence: {line}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
