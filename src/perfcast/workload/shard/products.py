"""How a cut spreads through a product, C[.., m, n] = A[.., m, k] · B[.., k, n], and how weights are cut.

Products alternate as in Megatron-LM (Shoeybi et al., 2019, section 3): a weight that meets whole activations
is cut along its outputs (column), one that meets activations cut along the contraction is cut along its
inputs (row) and leaves summands on every rank.
"""

from __future__ import annotations

from perfcast.workload.shard.state import Spread


def product(spread: Spread) -> None:
    """Plain and batched products."""
    if len(spread.node.inputs) < 2 or len(spread.type_of(spread.node.inputs[-1]).shape) < 2:
        if any(spread.cut_of(tensor) for tensor in spread.node.inputs):
            raise spread.conflict("a product with a vector has no rule")
        return
    a, b = spread.node.inputs[-2:]
    _gather_sequence(spread, a, b)
    _decide(spread, a, b)
    rank = len(spread.type_of(a).shape)
    a_cut, b_cut = spread.cut_of(a), spread.cut_of(b)
    if a_cut is None and b_cut is None:
        return
    if rank == 3 and 0 in {cut.dim for cut in (a_cut, b_cut) if cut is not None}:
        _batched(spread, a, b)
        return
    a_dim = a_cut.dim - (rank - 2) if a_cut is not None else None
    b_dim = b_cut.dim - (rank - 2) if b_cut is not None else None
    output, origins = spread.node.outputs[0], spread.origins_of((a, b))
    if a_dim == 1 and b_dim == 0:
        spread.set_partial(output, origins)
    elif a_dim is None and b_dim == 1 and b_cut is not None:
        _set_output(spread, rank - 1, b_cut.run, origins)
    elif a_dim == 0 and b_dim is None and a_cut is not None:
        _set_output(spread, rank - 2, a_cut.run, origins)
    else:
        raise spread.conflict("operands are cut along dims that do not meet")


def _gather_sequence(spread: Spread, a: int, b: int) -> None:
    """A product takes whole sequences."""
    for tensor in (a, b):
        if spread.is_along_sequence(tensor) and spread.cut_of(tensor) is not None:
            spread.gather(tensor)


def _decide(spread: Spread, a: int, b: int) -> None:
    """Cut a weight that is not cut yet, in the forward: by rows if its activations are, else by columns."""
    parameter = spread.parameter_of(b)
    undecided = parameter is not None and spread.storage_of(b) not in spread.states
    if not undecided or parameter in spread.kept or not spread.decides:
        return
    shape, cut = spread.type_of(b).shape, spread.cut_of(a)
    rank = len(shape)
    if cut is None:
        spread.cut_parameter(b, rank - 1, shape[-1])
    elif cut.dim == len(spread.type_of(a).shape) - 1:
        if spread.origins_of((a,)) <= spread.normed:
            raise spread.conflict("a norm lies between two products, the first of which stays whole")
        spread.cut_parameter(b, rank - 2, shape[-2])


def _batched(spread: Spread, a: int, b: int) -> None:
    """Products of a batch, which is cut."""
    first = len(spread.node.inputs) - 2
    cuts = {position: spread.cut_of(tensor) for position, tensor in ((first, a), (first + 1, b))}
    if any(cut is not None and cut.dim != 0 for cut in cuts.values()):
        raise spread.conflict("one operand is cut along the batch, the other along the product")
    run = next(cut.run for cut in cuts.values() if cut is not None)
    for position, cut in cuts.items():
        if cut is None:
            spread.slice_input(position, 0, run)
    _set_output(spread, 0, run, spread.origins_of((a, b)))


def _set_output(spread: Spread, dim: int, run: int, origins: frozenset[int]) -> None:
    """Cut the output; an addend (a bias) along with it."""
    (output,) = spread.node.outputs
    target = spread.type_of(output).shape
    if len(spread.node.inputs) > 2:
        addend = spread.type_of(spread.node.inputs[0]).shape
        at = dim - (len(target) - len(addend))
        if at >= 0 and addend[at] > 1 and spread.cut_of(spread.node.inputs[0]) is None:
            spread.slice_input(0, at, run)
    spread.set_cut(output, dim, run, origins)


def grouped_product(spread: Spread) -> None:
    """Products whose rows meet one group's matrix each: cut as plain ones, in every group alike."""
    a, b = spread.node.inputs[:2]
    _gather_sequence(spread, a, b)
    parameter = spread.parameter_of(b)
    if parameter is not None and spread.storage_of(b) not in spread.states and parameter not in spread.kept:
        _decide(spread, a, b)
    a_cut, b_cut = spread.cut_of(a), spread.cut_of(b)
    if a_cut is None and b_cut is None:
        return
    (output,) = spread.node.outputs
    origins, target = spread.origins_of((a, b)), spread.type_of(output).shape
    b_rank = len(spread.type_of(b).shape)
    a_dim = a_cut.dim if a_cut is not None else None
    b_dim = b_cut.dim - (b_rank - 2) if b_cut is not None else None
    if a_dim == 1 and b_dim == 0:
        spread.set_partial(output, origins)
    elif a_dim is None and b_dim == 1 and b_cut is not None:
        spread.set_cut(output, len(target) - 1, b_cut.run, origins)
    elif a_dim == 0 and b_dim is None and a_cut is not None and b_rank == 2:
        spread.set_cut(output, len(target) - 2, a_cut.run, origins)
    else:
        raise spread.conflict("operands are cut along dims that do not meet")
