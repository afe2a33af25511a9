"""What a sweep is: cells, and the job that every cell is searched by.

A cell is one model on one cluster with one batch and one sequence length. The job says how a cell is
searched. A cell's key is the hash of all that its result depends on: the cell, the job, the versions of the
programs and the content of the files that the cell names. Equal keys mean equal results, so a result that is
kept under its key never has to be computed again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.metadata import version
from itertools import product
from pathlib import Path

from perfcast.catalogs.clusters import whole_name
from perfcast.errors import InputError
from perfcast.prediction.installed import measurements_digest, program_digest
from perfcast.ranges import Range

Value = int | float | str | bool | None
Row = Mapping[str, Value]

#: Columns that say which cell a row is of.
CELL_COLUMNS: Mapping[str, type] = {
    "model": str,
    "cluster": str,
    "global_batch_size": int,
    "sequence_length": int,
}
#: ``place``: 1 for a cell's first row and so on, 0 where it has none; ``outcome``: why it has none, else "".
RESULT_COLUMNS: Mapping[str, type] = {"place": int, "outcome": str}
KEY = "key"
_PACKAGES = ("perfcast", "numpy", "scipy", "torch", "transformers", "lightgbm")


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of a sweep.

    Attributes:
        model: Catalog name, or the path of a config.
        cluster: Catalog name or path of a file, with ``:N`` for the number of devices.
        global_batch_size: Sequences of a step.
        sequence_length: Tokens of a sequence.
    """

    model: str
    cluster: str
    global_batch_size: int
    sequence_length: int

    def __str__(self) -> str:
        return (
            f"{self.model} on {self.cluster}, batch {self.global_batch_size}, sequence {self.sequence_length}"
        )


SearchCell = Callable[[Cell], Sequence[Row]]
OpenSearch = Callable[[Mapping[str, object]], SearchCell]


def list_versions() -> Mapping[str, str]:
    """The programs that a result depends on: perfcast, the content of its files, and what it computes with.

    ``measured`` are the profiles and corrections that the user's own measurements left in the data folder.
    A changed file changes the versions, so no result of older code or data is taken over.
    """
    return {
        "files": program_digest(),
        "measured": measurements_digest() or "",
        **{name: version(name) for name in _PACKAGES},
    }


@dataclass(frozen=True, eq=False)
class SweepJob:
    """How each cell of a sweep is searched; jobs of one key are equal.

    Attributes:
        open_search: Called once per worker process with ``settings``: loads what all cells share and returns
            the function that searches one cell. A function of a module, so that other processes find it.
            The search returns its rows, best first, and raises PlanError where a cell allows no plan.
        columns: Name and type (int, float, str or bool) of each value of a row; a value may be None.
        settings: What all cells share (goal, constraints, cost model …); anything that JSON can say. Must
            name all that the rows depend on beside the cell, files by their content.
        versions: See ``list_versions``.
    """

    open_search: OpenSearch
    columns: Mapping[str, type]
    settings: Mapping[str, object] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=list_versions)

    @cached_property
    def key(self) -> str:
        """Hash of everything that a cell's result depends on, except the cell."""
        search = f"{self.open_search.__module__}.{self.open_search.__qualname__}"
        return _hash([search, self.described_columns, self.settings, self.versions])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SweepJob) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def described_columns(self) -> Mapping[str, str]:
        """The columns' types as words."""
        return {name: kind.__name__ for name, kind in self.columns.items()}


#: Each is a search of its own.
_CELLS = Range(1, 10_000, "make several sweeps of it")


def expand_grid(
    models: Iterable[str],
    clusters: Iterable[str],
    global_batch_sizes: Iterable[int],
    sequence_lengths: Iterable[int],
) -> tuple[Cell, ...]:
    """Every combination once; cells of one model and cluster stand together, which makes them cheap to share.

    Raises:
        InputError: A list is empty, a number is not positive, or there are too many cells.

    >>> [str(cell) for cell in expand_grid(["gpt2"], ["dgx-h100:8"], [8, 8], [1024])]
    ['gpt2 on dgx-h100:8, batch 8, sequence 1024']
    """
    names, targets = list(models), list(clusters)
    batches, lengths = list(global_batch_sizes), list(sequence_lengths)
    axes = {"models": names, "clusters": targets, "batch sizes": batches, "sequence lengths": lengths}
    if missing := [axis for axis, values in axes.items() if not values]:
        raise InputError(f"a sweep over no {' and no '.join(missing)}: give one at least")
    if wrong := [number for number in batches + lengths if number < 1]:
        raise InputError(f"batch sizes and sequence lengths must be positive; {wrong[0]} is not")
    _CELLS.check("cells of the sweep:", len(names) * len(targets) * len(batches) * len(lengths))
    return tuple(dict.fromkeys(Cell(*values) for values in product(names, targets, batches, lengths)))


def key_cells(job: SweepJob, cells: Sequence[Cell]) -> list[str]:
    """The key of each cell.

    Raises:
        InputError: A file that a cell names cannot be read.
    """
    contents = {name: _hash_named(name) for cell in cells for name in _names(cell)}
    return [_hash([job.key, asdict(cell), [contents[name] for name in _names(cell)]]) for cell in cells]


def _names(cell: Cell) -> tuple[str, str]:
    """Model and cluster, either of which may be a path."""
    return cell.model, whole_name(cell.cluster)


def _hash(value: object) -> str:
    text = json.dumps(value, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _hash_named(name: str) -> str:
    """Hash of the file, or of the configs in the folder, that a name points to; '' where it is no path."""
    path = Path(name)
    if path.is_dir():
        return _hash_files(path.glob("*.json"), path)
    return _hash_files([path], path.parent) if path.is_file() else ""


def _hash_files(paths: Iterable[Path], root: Path) -> str:
    """Hash of some files' names below ``root`` and of their content."""
    try:
        return _hash(
            [
                [path.relative_to(root).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest()]
                for path in sorted(paths)
            ]
        )
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read ({error.strerror})") from None
