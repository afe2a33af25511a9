"""The ways in which each table can be cut, in columns: what one piece of it costs the rank that holds it.

A piece of a table is itself a table: of a row-wise cut into p, rows / p rows with lookups / p; of a
column-wise one, all rows of dim / p elements. A data-parallel table is whole on every rank and sees the
rank's own samples alone.

Bytes of a piece with c columns, w lookups a bag, for a batch of B samples (int64 indices and lengths, fp32
outputs; a row-wise piece sends partial sums, so it sends as much as a whole table does):

    indices that come in = B (w + 1) · 8          outputs that go out = B c · 4
    memory = weights + optimizer states + indices + 2 outputs (the sums and their gradients)

A data-parallel piece exchanges neither; its gradient, rows · dim · 4 bytes, is kept and all-reduced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers
from perfcast.core.embedding.columns import EmbeddingColumns, embedding_columns
from perfcast.core.embedding.lookup import EmbeddingLookup, EmbeddingTable, ShardingKind
from perfcast.searches.sharding.problem import OPTIMIZER_STATES, ShardingProblem

INDEX_BYTES = 8
OUTPUT_BYTES = 4
#: Slices of columns are no narrower than a cache line.
_LINE_BYTES = 64
#: Columns of a rank's state after the F features of its lookups: bytes that go out, that come in, that stay.
OUT, IN, MEMORY = -3, -2, -1


@dataclass(frozen=True, eq=False)
class ShardOptions:
    """O options of T tables; the options of one table stand together.

    Attributes:
        tables: Of each option, shape [O].
        kinds: Of each option.
        parts: Pieces that the option makes, shape [O]; of a data-parallel one 1.
        rows: What one piece adds to the state of its rank, shape [O, F + 3]: the vectors of its lookups
            forward and backward, OUT, IN, MEMORY bytes.
        forward_width: Columns of the forward vector.
        reduced_bytes: Gradient of a data-parallel option, shape [O].
        seconds: Forward and backward of one piece alone on a rank, shape [O].
        first: Option of each table where it is whole on one rank, shape [T].
    """

    tables: Integers
    kinds: tuple[ShardingKind, ...]
    parts: Integers
    rows: Floats
    forward_width: int
    reduced_bytes: Floats
    seconds: Floats
    first: Integers

    def of_table(self, table: int) -> range:
        """Options of one table."""
        last = len(self.kinds) if table + 1 == len(self.first) else int(self.first[table + 1])
        return range(int(self.first[table]), last)

    def is_replicated(self, option: int) -> bool:
        """Whether the table is whole on every rank."""
        return self.kinds[option] is ShardingKind.DATA_PARALLEL

    def find(self, table: int, kind: ShardingKind, parts: int) -> int | None:
        """The option of a table by kind and number of pieces; None where there is no such option."""
        for option in self.of_table(table):
            if self.kinds[option] is kind and int(self.parts[option]) == parts:
                return option
        return None


#: Table, kind and pieces.
Cut = tuple[int, ShardingKind, int]


def list_options(problem: ShardingProblem, given: Sequence[Cut] = ()) -> ShardOptions:
    """Every way to cut every table, the whole table first.

    Args:
        given: Cuts of a plan from elsewhere that are to be judged too.
    """
    cuts: list[Cut] = []
    first = []
    asked = dict.fromkeys(given)
    for index, table in enumerate(problem.tables):
        own = [(index, kind, parts) for kind, parts in _cuts(table, problem)]
        first.append(len(cuts))
        cuts += dict.fromkeys([*own, *(cut for cut in asked if cut[0] == index)])
    tables = np.array([cut[0] for cut in cuts])
    kinds = tuple(cut[1] for cut in cuts)
    parts = np.array([cut[2] for cut in cuts])
    columns = _piece_columns(problem, tables, kinds, parts)
    forward = problem.cost.table_vectors(columns, "forward")
    backward = problem.cost.table_vectors(columns, "backward")
    replicated = _are(kinds, ShardingKind.DATA_PARALLEL)
    return ShardOptions(
        tables=tables,
        kinds=kinds,
        parts=parts,
        rows=np.hstack([forward, backward, _bytes(columns, replicated, problem)]),
        forward_width=forward.shape[1],
        reduced_bytes=np.where(replicated, columns.num_rows * columns.dim * OUTPUT_BYTES, 0.0),
        seconds=problem.cost.device_seconds(forward, "forward")
        + problem.cost.device_seconds(backward, "backward"),
        first=np.array(first),
    )


def _piece_columns(
    problem: ShardingProblem, tables: Integers, kinds: tuple[ShardingKind, ...], parts: Integers
) -> EmbeddingColumns:
    """What the rank of the largest piece of every option looks up, shape [O]."""
    whole = _table_columns(problem, problem.global_batch_size)
    columns = whole.take(tables)
    local = _table_columns(problem, problem.local_batch_size).take(tables)
    replicated = _are(kinds, ShardingKind.DATA_PARALLEL)
    by_rows = np.where(_are(kinds, ShardingKind.ROW_WISE), parts, 1)
    by_columns = np.where(_are(kinds, ShardingKind.COLUMN_WISE), parts, 1)
    touched = np.where(replicated[:, None], local.touched_rows, columns.touched_rows / by_rows[:, None])
    lookups = np.where(replicated[:, None], local.touched_lookups, columns.touched_lookups / by_rows[:, None])
    return replace(
        columns,
        num_rows=np.ceil(columns.num_rows / by_rows),
        dim=np.ceil(columns.dim / by_columns),
        pooling=columns.pooling / by_rows,
        batch_size=np.where(replicated, local.batch_size, columns.batch_size),
        touched_rows=touched,
        touched_lookups=lookups,
    )


def _table_columns(problem: ShardingProblem, batch_size: int) -> EmbeddingColumns:
    return embedding_columns(
        [
            EmbeddingLookup(
                table.num_rows, table.dim, batch_size, table.pooling, dtype=table.dtype, reuse=table.reuse
            )
            for table in problem.tables
        ]
    )


def _are(kinds: tuple[ShardingKind, ...], wanted: ShardingKind) -> Flags:
    return np.array([kind is wanted for kind in kinds], dtype=bool)


def _cuts(table: EmbeddingTable, problem: ShardingProblem) -> Iterator[tuple[ShardingKind, int]]:
    yield ShardingKind.TABLE_WISE, 1
    ranks = problem.num_ranks
    if ranks == 1:
        return
    narrowest = max(_LINE_BYTES * 8 // table.dtype.bits, 1)
    if ShardingKind.COLUMN_WISE in problem.kinds:
        for parts in _powers(ranks):
            if table.dim % parts == 0 and table.dim // parts >= narrowest:
                yield ShardingKind.COLUMN_WISE, parts
    if ShardingKind.ROW_WISE in problem.kinds:
        for parts in sorted({*_powers(ranks), ranks}):
            if parts <= table.num_rows:
                yield ShardingKind.ROW_WISE, parts
    if ShardingKind.DATA_PARALLEL in problem.kinds:
        yield ShardingKind.DATA_PARALLEL, 1


def _powers(limit: int) -> list[int]:
    """2, 4, 8 … up to the limit."""
    return [2**k for k in range(1, limit.bit_length()) if 2**k <= limit]


def _bytes(columns: EmbeddingColumns, replicated: Flags, problem: ShardingProblem) -> Floats:
    """OUT, IN and MEMORY of every option's piece, shape [O, 3]."""
    elements = columns.num_rows * columns.dim
    by_row, by_element = OPTIMIZER_STATES[problem.optimizer]
    stays = np.ceil(elements * columns.element_bytes) + columns.num_rows * by_row + elements * by_element
    indices = columns.batch_size * (columns.pooling + 1) * INDEX_BYTES
    outputs = columns.batch_size * columns.dim * OUTPUT_BYTES
    gradient = np.where(replicated, elements * OUTPUT_BYTES, 0.0)
    return np.stack(
        [
            np.where(replicated, 0.0, outputs),
            np.where(replicated, 0.0, indices),
            stays + gradient + indices + 2 * outputs,
        ],
        axis=1,
    )


def pieces_of(kind: ShardingKind, ranks: tuple[int, ...]) -> int:
    """Pieces into which a placement cuts its table."""
    return len(ranks) if kind in (ShardingKind.ROW_WISE, ShardingKind.COLUMN_WISE) else 1
