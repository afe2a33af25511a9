"""FBGEMM's lookups in batched tables as PyTorch's own bags, rebuilt from what a trace keeps of them.

``split_embedding_codegen_lookup_*`` takes the rows of all tables in one piece of memory, the ends of the
tables' widths (``D_offsets``: one more than tables), all widths together (``total_D``), lookups and the bags'
offsets, table by table (FBGEMM, ``codegen/training/forward/embedding_forward_split_host_template.cpp``). The
numbers in these tensors are not recorded: tables are taken to be equally wide and long. So T tables of width
total_D / T are one bag operator on one table, whose result [T B, D] is turned to [B, T D].
"""

from __future__ import annotations

import re
from dataclasses import replace

from perfcast.replays.play.operators import OperatorTable, full_name
from perfcast.replays.program.draft import Draft, NotPlayableError, uses_in
from perfcast.traces.events import NONE
from perfcast.traces.execution_trace.nodes import TensorUse

_LOOKUP = re.compile(r"fbgemm::(split|dense|ssd)_embedding(_nobag)?_codegen_lookup_\w*function(_pt2|_cpu)*")
_WEIGHTS = ("host_weights", "dev_weights", "uvm_weights", "weights")
_SUM, _MEAN, _NO_POOLING = 0, 1, 2
_BAG = (
    "aten::_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, "
    "int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, "
    "int padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)"
)
_ROWS = (
    "aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, "
    "bool sparse=False) -> Tensor"
)
_TURN = "aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)"
#: Ids of tensors that no trace has: addresses and counters are far below.
_FIRST_ID = 1 << 60


def is_embedding_lookup(name: str) -> bool:
    """Whether an operator is a lookup in FBGEMM's batched tables."""
    return _LOOKUP.fullmatch(name) is not None


def standing_for(draft: Draft, operators: OperatorTable) -> tuple[tuple[Draft, ...], str]:
    """The calls that are played for one, and what they are in words where they are others.

    Raises:
        NotPlayableError: As ``with_plain_bags``.
    """
    if not is_embedding_lookup(draft.operator) or operators.exists(full_name(draft.parsed)):
        return (draft,), ""
    return with_plain_bags(draft)


def with_plain_bags(draft: Draft) -> tuple[tuple[Draft, ...], str]:
    """The calls that stand for a lookup, and what they are in words.

    Raises:
        NotPlayableError: The trace does not keep what it takes, or its tables cannot be equally wide.
    """
    weights, indices = _weights(draft), _tensor(draft, "indices")
    output = draft.outputs[0] if draft.outputs else None
    if output is None or not output.shape:
        raise NotPlayableError("the result of its lookup is not recorded")
    if draft.argument("pooling_mode") == _NO_POOLING:
        width = output.shape[-1]
        table = _table(weights, width)
        looked_up = draft.as_call(_ROWS, (table, indices, -1, False, False), (output,))
        return (looked_up,), _words(draft, "aten::embedding", 1, table)
    return _bags(draft, weights, indices, output)


def _bags(
    draft: Draft, weights: TensorUse, indices: TensorUse, output: TensorUse
) -> tuple[tuple[Draft, ...], str]:
    offsets, ends = _tensor(draft, "offsets"), _tensor(draft, "D_offsets")
    num_tables, num_bags = ends.num_elements - 1, offsets.num_elements - 1
    total = output.shape[-1]
    if num_tables < 1 or total % num_tables or num_bags % num_tables:
        raise NotPlayableError(f"its {num_tables} tables, {total} wide together, cannot be equally wide")
    if indices.dtype != offsets.dtype:
        raise NotPlayableError(f"its lookups are {indices.dtype}, the offsets of its bags {offsets.dtype}")
    width, batch = total // num_tables, num_bags // num_tables
    table = _table(weights, width)
    mode = _MEAN if draft.argument("pooling_mode") == _MEAN else _SUM
    scales = draft.argument("indice_weights")
    bags = _made(draft, output, (num_bags, width))
    by_sample = replace(bags, shape=(batch, num_tables, width), strides=(width, batch * width, 1))
    first = (table, indices, offsets, False, mode, False, scales, True, -1)
    return (
        draft.as_call(_BAG, first, (bags, None, None, None)),
        replace(
            draft.as_call(_TURN, (by_sample, (batch, total)), (replace(output, shape=(batch, total)),)),
            recorded_seconds=float("nan"),
        ),
    ), _words(draft, "aten::_embedding_bag", num_tables, table)


def _words(draft: Draft, operator: str, num_tables: int, table: TensorUse) -> str:
    rows, width = table.shape
    return (
        f"{draft.operator} is played as {operator} on {num_tables} tables of {rows // num_tables:,} rows, "
        f"{width} wide: as if all were equal, since the trace keeps only their sums"
    )


def _weights(draft: Draft) -> TensorUse:
    """The largest of the pieces of memory that rows may lie in."""
    found = [
        use
        for name in _WEIGHTS
        for use in uses_in(draft.argument(name))
        if use.dtype.startswith(("float", "bfloat"))
    ]
    largest = max(found, key=lambda use: use.num_elements, default=None)
    if largest is None or not largest.num_elements:
        raise NotPlayableError("the rows of its tables are not recorded as numbers of a plain type")
    return largest


def _tensor(draft: Draft, name: str) -> TensorUse:
    use = draft.argument(name)
    if not isinstance(use, TensorUse):
        raise NotPlayableError(f"the trace does not keep its '{name}'")
    return use


def _table(weights: TensorUse, width: int) -> TensorUse:
    """All rows as one table of this width; what does not fill a row is left out."""
    rows = weights.num_elements // max(width, 1)
    if not rows:
        raise NotPlayableError("its tables hold no row")
    return replace(weights, shape=(rows, width), strides=(width, 1), num_elements=rows * width)


def _made(draft: Draft, like: TensorUse, shape: tuple[int, ...]) -> TensorUse:
    """A tensor in memory of its own, between two calls that stand for one."""
    number = _FIRST_ID + draft.node_id
    return replace(
        like, tensor_id=number, storage_id=number, storage=NONE, offset_elements=0, shape=shape, strides=None
    )
