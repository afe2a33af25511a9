"""Tables of measurements as they lie in files, and which of them are known."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from perfcast.errors import InputError
from perfcast.files import reading_tables

#: Kinds of table that have a reader. A stem is a kind, or a kind, an underscore and more: what a file is
#: about ('linear_test') or the device that it was measured on ('gemm_h100_sxm').
KINDS = (
    "matmul", "linear", "bmm", "vector", "elem", "softmax", "ln", "convolution",
    "gemm", "attention_context", "attention_generation", "attention_encoder",
    "mla_context", "mla_generation", "mla_bmm", "moe", "gdn", "mamba2",
    "quant_compute_scale", "quant_scale_matrix",
    "vidur_mlp_ops", "aiter_gemm_amd", "aiter_fused_moe_amd", "simumax_op_efficiency", "llmcompass_ops",
)  # fmt: skip

#: Tables of kernels that are recognised, and not read.
UNSUPPORTED_KINDS = ("trace_kernel_times", "moe_dispatch_combine_alltoall")

#: Of files that are read.
SUFFIXES = (".parquet", ".csv.gz", ".csv")


@dataclass(frozen=True, eq=False)
class RawTable:
    """One file.

    Attributes:
        stem: File name without suffixes: 'gemm_h100_sxm', 'linear_test'.
        frame: As written, in the order of the file.
    """

    stem: str
    path: Path
    frame: pl.DataFrame

    @property
    def kind(self) -> str:
        """Which reader understands it."""
        return kind_of(self.stem) or self.stem

    @property
    def named_device(self) -> str:
        """The rest of the stem: the device, in tables that have no column for it."""
        return self.stem.removeprefix(self.kind).removeprefix("_")


def kind_of(stem: str) -> str | None:
    """The longest kind that ``stem`` begins with, or None.

    >>> kind_of("attention_context_h100_sxm"), kind_of("steps")
    ('attention_context', None)
    """
    found = [k for k in (*KINDS, *UNSUPPORTED_KINDS) if stem == k or stem.startswith(f"{k}_")]
    return max(found, key=len, default=None)


def stem_of(path: Path) -> str:
    """A table's name: that of its file without suffixes."""
    return path.name.split(".")[0]


def find_tables(places: Sequence[Path], stems: Collection[str]) -> list[Path]:
    """Files of some tables in folders, and single files of them; each once, by name.

    Raises:
        InputError: A place does not exist.
    """
    found: set[Path] = set()
    for place in places:
        if not place.exists():
            raise InputError(f"{place}: no such file or folder")
        paths = place.iterdir() if place.is_dir() else [place]
        found |= {path for path in paths if stem_of(path) in stems and path.name.endswith(SUFFIXES)}
    return sorted(found)


def known_files(folder: Path) -> dict[str, Path]:
    """Stem → file of the known tables directly in a folder, by name.

    Raises:
        InputError: Not a folder, or two files for one table.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; --data names one with measured tables")
    files: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        suffix = next((s for s in SUFFIXES if path.name.endswith(s)), None)
        stem = path.name.removesuffix(suffix or "")
        if suffix is None or kind_of(stem) is None or not path.is_file():
            continue
        if stem in files:
            raise InputError(f"{folder}: both {files[stem].name} and {path.name} hold table '{stem}'")
        files[stem] = path
    return files


def read_tables(folder: Path, stems: Callable[[str], bool] | None = None) -> Iterator[RawTable]:
    """The known tables in a folder, one by one, by name; ``stems`` chooses among them.

    Raises:
        InputError: Not a folder, no known table in it, or a file that cannot be read.
    """
    files = known_files(Path(folder))
    if not files:
        raise InputError(
            f"{folder} holds no table of measurements that is known; "
            f"expected files such as gemm_<device>.csv.gz or matmul_train.parquet"
        )
    for stem, path in files.items():
        if stems is None or stems(stem):
            yield RawTable(stem, path, read_frame(path))


def read_frame(path: Path) -> pl.DataFrame:
    """A .csv, .csv.gz or .parquet file; types of CSV columns are found by looking.

    Raises:
        InputError: It cannot be read.
    """
    return reading_tables.read_frame(path, what="the measurements")
