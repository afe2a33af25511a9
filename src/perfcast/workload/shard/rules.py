"""How a cut spreads through an operation: one rule per kind.

A rule looks at the cuts of the inputs, decides how undecided parameters are cut, and says how the outputs
are. Products are in ``products``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perfcast.core.graph import Phase
from perfcast.core.operation import OperationKind as Kind
from perfcast.workload.shard.cuts import CutDim
from perfcast.workload.shard.products import grouped_product, product
from perfcast.workload.shard.state import InsertedCollective, Spread

Shape = Sequence[int]


def apply_rule(spread: Spread) -> None:
    """Spread the cuts of the present node's inputs to its outputs.

    Raises:
        ConflictError: They do not go together.
        PlanError: A dim does not divide.
    """
    kind = spread.operation.kind
    if kind in _PRODUCTS:
        _PRODUCTS[kind](spread)
        return
    if kind is Kind.EMBEDDING:
        _embedding(spread)
        return
    if not any(spread.cut_of(tensor) for tensor in spread.node.inputs):
        return
    _RULES.get(kind, _refuse)(spread)


# ---- alignment of shapes ------------------------------------------------------------------------


def align(shape: Shape, dim: int, target: Shape) -> int | None:
    """Where a dim lies in another shape, which it is broadcast to, grown or shrunk into; None: unclear."""
    offset = len(target) - len(shape)
    if offset >= 0 and all(a in (b, 1) for a, b in zip(shape, target[offset:], strict=True)):
        return dim + offset
    if offset == 0:
        return dim
    longer, shorter = (target, shape) if offset > 0 else (shape, target)
    for dropped in range(len(longer)):
        if abs(offset) == 1 and (*longer[:dropped], *longer[dropped + 1 :]) == tuple(shorter):
            if offset > 0:
                return dim + (dim >= dropped)
            return None if dim == dropped else dim - (dim > dropped)
    return None


def _cuts(spread: Spread, outputs: Sequence[int]) -> dict[int, CutDim]:
    """Output → its cut dim, as the cut inputs say; inputs that are whole there are sliced.

    Raises:
        ConflictError: Inputs disagree.
    """
    node, found = spread.node, dict[int, CutDim]()
    for output in outputs:
        target = spread.type_of(output).shape
        for tensor in node.inputs:
            cut = spread.cut_of(tensor)
            shape = spread.type_of(tensor).shape
            if cut is None:
                continue
            dim = align(shape, cut.dim, target)
            if dim is None or target[dim] % cut.run:
                raise spread.conflict(f"the cut dim of {list(shape)} is not found in {list(target)}")
            if output in found and found[output].dim != dim:
                raise spread.conflict("inputs are cut along different dims")
            found[output] = CutDim(dim, cut.run)
    return found


def _slice_whole_inputs(spread: Spread, target: Shape, cut: CutDim) -> None:
    """Inputs that are whole where the others are cut."""
    for position, tensor in enumerate(spread.node.inputs):
        shape = spread.type_of(tensor).shape
        dim = cut.dim - (len(target) - len(shape))
        if spread.cut_of(tensor) is None and dim >= 0 and shape[dim] == target[cut.dim] > 1:
            spread.slice_input(position, dim, cut.run)


# ---- rules --------------------------------------------------------------------------------------


def _pointwise(spread: Spread) -> None:
    """Each element of the output from the elements at its place."""
    outputs = spread.node.outputs or spread.node.inputs[:1]
    origins = spread.origins_of(spread.node.inputs)
    for output, cut in _cuts(spread, outputs).items():
        _slice_whole_inputs(spread, spread.type_of(output).shape, cut)
        spread.set_cut(output, cut.dim, cut.run, origins)


def _concatenation(spread: Spread) -> None:
    """Along the cut dim the parts of a rank follow one another; along others, dims stay."""
    node = spread.node
    (output,) = node.outputs
    target = spread.type_of(output).shape
    origins = spread.origins_of(node.inputs)
    cuts = [(spread.type_of(t).shape, spread.cut_of(t)) for t in node.inputs]
    dims = {cut.dim for _, cut in cuts if cut is not None}
    if len(dims) != 1 or any(len(shape) != len(target) for shape, _ in cuts):
        raise spread.conflict("parts are cut along different dims")
    (dim,) = dims
    if any(shape[dim] != target[dim] for shape, _ in cuts):  # joined along the cut dim
        if any(cut is None for _, cut in cuts):
            raise spread.conflict("a whole part is joined to cut ones along the cut dim")
        spread.set_cut(output, dim, target[dim], origins)
        return
    run = next(cut.run for _, cut in cuts if cut is not None)
    for position, (shape, cut) in enumerate(cuts):
        if cut is None and shape[dim] > 1:
            spread.slice_input(position, dim, run)
    spread.set_cut(output, dim, run, origins)


def _copy(spread: Spread) -> None:
    if spread.operation.name == "cat":
        _concatenation(spread)
    else:
        _pointwise(spread)


def _rows(spread: Spread) -> None:
    """Softmax and norms: rows are computed alone; a norm's weights see all of them."""
    node, row = spread.node, spread.operation.attribute("row")
    first = node.inputs[0]
    origins = spread.origins_of(node.inputs)
    source = spread.type_of(node.outputs[0]).shape
    for output in node.outputs:
        target = spread.type_of(output).shape
        if len(target) < len(source):  # the gradient of a weight: a sum over all rows
            spread.set_partial(output, origins)
            continue
        for tensor in node.inputs:
            cut = spread.cut_of(tensor)
            if cut is None or len(spread.type_of(tensor).shape) != len(source):
                continue
            if cut.dim == len(source) - 1 and source[-1] > 1 and target[-1] in (row, 1, source[-1]):
                raise spread.conflict("rows are cut")
            spread.set_cut(output, cut.dim, cut.run, origins)
            break
    cut = spread.cut_of(first)
    if cut is not None:
        _slice_whole_inputs(spread, spread.type_of(first).shape, cut)


def _softmax(spread: Spread) -> None:
    """Over cut rows only where it is that of the loss: two numbers for each row are summed up."""
    node = spread.node
    source = node.inputs[0]
    cut, shape = spread.cut_of(source), spread.type_of(source).shape
    is_last = cut is not None and cut.dim == len(shape) - 1
    if not (is_last and spread.operation.name.startswith("_log_softmax")):
        _rows(spread)
        return
    if "backward" not in spread.operation.name:
        for _ in ("largest", "sum"):
            _add_row_collective(spread, source)
    _pointwise(spread)


def _add_row_collective(spread: Spread, source: int) -> None:
    from perfcast.core.tensor import TensorType

    shape = spread.type_of(source)
    rows = TensorType((shape.num_elements // shape.shape[-1],), spread.operation.compute_dtype, (1,))
    producer = spread.producer.get(spread.storage_of(source), spread.at)
    spread.collectives.append(InsertedCollective("all_reduce", rows, producer, spread.at))


def _loss(spread: Spread) -> None:
    """Negative log-likelihood over cut rows: the rank that holds the target's column has the number."""
    node, name = spread.node, spread.operation.name
    source = node.inputs[1] if "backward" in name else node.inputs[0]
    if not name.startswith("nll_loss"):
        raise spread.conflict("the loss needs whole rows")
    if "backward" in name:
        cut = spread.cut_of(source)
        if cut is not None:
            spread.set_cut(node.outputs[0], cut.dim, cut.run, spread.origins_of((source,)))
    else:
        _add_row_collective(spread, source)


def _reduction(spread: Spread) -> None:
    """A cut dim that stays is cut in the output; one that is summed over leaves summands."""
    node = spread.node
    source, shape = node.inputs[0], spread.type_of(node.inputs[0]).shape
    cut, origins = spread.cut_of(source), spread.origins_of(node.inputs)
    if cut is None or len(node.inputs) > 1:
        _pointwise(spread)
        return
    for output in node.outputs:
        target = spread.type_of(output).shape
        dim = _kept_dim(shape, cut.dim, target)
        if dim is not None:
            spread.set_cut(output, dim, cut.run, origins)
        elif spread.operation.name in ("sum", "mean"):
            spread.set_partial(output, origins)
            if spread.phase is Phase.FORWARD:
                spread.normed |= origins
        else:
            raise spread.conflict("is taken over a cut dim")


def _kept_dim(shape: Shape, dim: int, target: Shape) -> int | None:
    """Where a dim lies after a reduction that keeps reduced dims with size 1, or drops them."""
    if len(shape) == len(target):
        return dim if target[dim] == shape[dim] else None
    position = 0
    for at, size in enumerate(shape):
        if position < len(target) and target[position] == size:
            if at == dim:
                return position
            position += 1
        elif at == dim:
            return None
    return None


def _fill(spread: Spread) -> None:
    """A new tensor like a cut one is cut; one that is written later takes the cut of what is written."""
    node = spread.node
    shapes = {spread.type_of(t).shape: t for t in node.inputs if spread.cut_of(t)}
    for output in node.outputs:
        source = shapes.get(spread.type_of(output).shape)
        cut = spread.cut_of(source) if source is not None else None
        if source is not None and cut is not None:
            spread.set_cut(output, cut.dim, cut.run, spread.origins_of((source,)))


def _indexing(spread: Spread) -> None:
    """Picks along other dims than the cut one."""
    source, (output, *_) = spread.node.inputs[0], spread.node.outputs
    shape, target = spread.type_of(source).shape, spread.type_of(output).shape
    cuts = [spread.cut_of(tensor) for tensor in spread.node.inputs]
    dims = {cut.dim for cut in cuts if cut is not None}
    (dim, *others) = sorted(dims)
    if others or len(shape) != len(target) or shape[dim] != target[dim]:
        _refuse(spread)
    run = next(cut.run for cut in cuts if cut is not None)
    spread.set_cut(output, dim, run, spread.origins_of(spread.node.inputs))


def _attention(spread: Spread) -> None:
    """Heads are independent."""
    node = spread.node
    origins = spread.origins_of(node.inputs)
    for position, tensor in enumerate(node.inputs):
        cut, shape = spread.cut_of(tensor), spread.type_of(tensor).shape
        if cut is not None and cut.dim != 1:
            raise spread.conflict("attention is cut along another dim than heads")
        if cut is None and len(shape) >= 3 and shape[1] > 1:
            spread.slice_input(position, 1, shape[1])
    for output in node.outputs:
        spread.set_cut(output, 1, spread.type_of(output).shape[1], origins)


def _refuse(spread: Spread) -> None:
    raise spread.conflict(f"{spread.operation.kind.value} has no rule for cut tensors")


# ---- embeddings ---------------------------------------------------------------------------------


def _embedding(spread: Spread) -> None:
    """A table cut along its rows leaves summands: zeros but on the rank that holds the row."""
    node = spread.node
    if "backward" in spread.operation.name:
        _embedding_backward(spread)
        return
    cut = spread.cut_of(node.inputs[0])
    (output,) = node.outputs
    shape = spread.type_of(output).shape
    if cut is not None and cut.dim == 0:
        spread.set_partial(output, spread.origins_of(node.inputs))
    elif cut is not None:
        spread.set_cut(output, len(shape) - 1, shape[-1], spread.origins_of(node.inputs))


def _embedding_backward(spread: Spread) -> None:
    node = spread.node
    source, (output,) = node.inputs[0], node.outputs
    if spread.is_along_sequence(source):
        spread.gather(source)
    shape, cut = spread.type_of(output).shape, spread.cut_of(source)
    table = spread.tables.get(node.module)
    state = spread.states.get(table) if table is not None else None
    if state is not None:
        spread.set_cut(output, 0, shape[0], state.origins)
    elif cut is not None:
        if cut.dim != len(spread.type_of(source).shape) - 1:
            raise spread.conflict("gradients of a table are cut along the sequence")
        spread.set_cut(output, 1, shape[1], spread.origins_of((source,)))


_PRODUCTS: dict[Kind, Callable[[Spread], None]] = {
    Kind.MATMUL: product,
    Kind.BATCHED_MATMUL: product,
    Kind.GROUPED_MATMUL: grouped_product,
}

_RULES: dict[Kind, Callable[[Spread], None]] = {
    Kind.ELEMENTWISE: _pointwise,
    Kind.RANDOM: _pointwise,
    Kind.COPY: _copy,
    Kind.FILL: _fill,
    Kind.ALLOCATION: _fill,
    Kind.SOFTMAX: _softmax,
    Kind.NORMALIZATION: _rows,
    Kind.REDUCTION: _reduction,
    Kind.LOSS: _loss,
    Kind.ATTENTION: _attention,
    Kind.INDEXING: _indexing,
}
