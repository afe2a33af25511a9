"""Each kind of collective as a call on a process group: what is sent, what is received, by which method.

The methods are those of the group itself, so that ``c10d``'s dispatcher sees what the recording saw, and
ranks of roots and peers are counted within the group, as they were recorded. Sums stand for every
reduction: traces do not say which it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from perfcast.errors import TraceError
from perfcast.replays.communication.shapes import Shape
from perfcast.traces.collectives.sizes import canonical_name
from perfcast.traces.events import Collective

#: Tensors received, tensors sent → the work under way; ``None`` where it is done.
Start: TypeAlias = Callable[[Sequence[Any], Sequence[Any]], Any]

#: Element types that gloo cannot add up, and those of the same size that it can: the bytes are the same.
_GLOO_SUMS = {
    "int16": "float16",
    "uint16": "float16",
    "uint32": "int32",
    "uint64": "int64",
    "float8_e4m3fn": "uint8",
    "float8_e5m2": "uint8",
    "complex64": "int64",
}


def start_function(
    collective: Collective, shape: Shape, root: int, group: Any, *, is_asynchronous: bool, is_gloo: bool
) -> Start:
    """What starts a collective on a group.

    Args:
        root: The root's or peer's rank within the group, where there is one.
        group: A ``torch.distributed.ProcessGroup``.

    Raises:
        TraceError: No such collective is known, or its sizes do not fit the group.
    """
    name = canonical_name(collective.name)
    if name not in _MAKERS:
        raise TraceError(f"a replay knows no collective '{collective.name}'")
    start = _MAKERS[name](_Asked(collective, shape, root, group, is_asynchronous))
    as_sum = _GLOO_SUMS.get(collective.dtype) if is_gloo and "reduce" in name else None
    return _as_type(start, as_sum) if as_sum else start


@dataclass(frozen=True, slots=True)
class _Asked:
    collective: Collective
    shape: Shape
    root: int
    group: Any
    is_asynchronous: bool

    def options(self, kind: str) -> Any:
        """Options of ``torch.distributed``, with whether the caller waits."""
        from torch.distributed import distributed_c10d

        options = getattr(distributed_c10d, kind)()
        if hasattr(options, "asyncOp"):
            options.asyncOp = self.is_asynchronous
        return options

    def check(self, is_right: bool, wanted: str) -> None:
        if not is_right:
            raise TraceError(
                f"{self.collective.name} (node {self.collective.row}) of {sum(self.shape.sent)} elements "
                f"into {sum(self.shape.received)}, among {self.group.size()} ranks: {wanted}"
            )


def _all_reduce(asked: _Asked) -> Start:
    group = asked.group
    if len(asked.shape.sent) == 1:
        options = asked.options("AllreduceOptions")
        return _in_place(lambda tensors: group.allreduce(tensors, options))
    many = asked.options("AllreduceCoalescedOptions")
    return _in_place(lambda tensors: group.allreduce_coalesced(tensors, many))


def _in_place(start: Callable[[Any], Any]) -> Start:
    """Starts a collective that works on the tensors that it receives; what is sent is copied there first."""

    def run(received: Sequence[Any], sent: Sequence[Any]) -> Any:
        for into, source in zip(received, sent, strict=True):
            if into is not source:
                into.copy_(source)
        return start(list(received))

    return run


def _all_gather(asked: _Asked) -> Start:
    group, size = asked.group, asked.group.size()
    received, sent = asked.shape.received, asked.shape.sent
    if len(received) == len(sent):
        asked.check(
            all(into == size * source for into, source in zip(received, sent, strict=True)),
            "each rank's part must fit",
        )
        options = asked.options("AllgatherOptions")
        if len(sent) == 1:
            return lambda into, source: group._allgather_base(into[0], source[0], options)
        return lambda into, source: group.allgather_into_tensor_coalesced(list(into), list(source), options)
    asked.check(len(received) == size * len(sent), "one tensor of each rank is received")
    options = asked.options("AllgatherOptions")
    return lambda into, source: group.allgather(_in_lists(into, len(source)), list(source), options)


def _reduce_scatter(asked: _Asked) -> Start:
    group, size = asked.group, asked.group.size()
    received, sent = asked.shape.received, asked.shape.sent
    options = asked.options("ReduceScatterOptions")
    if len(received) == len(sent):
        asked.check(
            all(source == size * into for into, source in zip(received, sent, strict=True)),
            "each rank's part must fit",
        )
        if len(sent) == 1:
            return lambda into, source: group._reduce_scatter_base(into[0], source[0], options)
        return lambda into, source: group.reduce_scatter_tensor_coalesced(list(into), list(source), options)
    asked.check(len(sent) == size * len(received), "one tensor for each rank is sent")
    return lambda into, source: group.reduce_scatter(list(into), _in_lists(source, len(into)), options)


def _in_lists(tensors: Sequence[Any], num_lists: int) -> list[list[Any]]:
    length = len(tensors) // max(num_lists, 1)
    return [list(tensors[start : start + length]) for start in range(0, len(tensors), length)]


def _all_to_all(asked: _Asked) -> Start:
    group, size, shape = asked.group, asked.group.size(), asked.shape
    options = asked.options("AllToAllOptions")
    if len(shape.received) == len(shape.sent) == 1:
        splits = [list(shape.received_splits), list(shape.sent_splits)]
        for one, elements in zip(splits, (shape.received[0], shape.sent[0]), strict=True):
            is_even = not one and elements % size == 0
            asked.check(is_even or len(one) == size, "one split for each rank")
            asked.check(is_even or (sum(one) == 0) == (elements == 0), "the splits make up the tensor")
        return lambda into, source: group.alltoall_base(into[0], source[0], splits[0], splits[1], options)
    asked.check(len(shape.received) == len(shape.sent) == size, "one tensor for each rank")
    return lambda into, source: group.alltoall(list(into), list(source), options)


def _broadcast(asked: _Asked) -> Start:
    group, options = asked.group, asked.options("BroadcastOptions")
    options.rootRank = _checked_root(asked)
    return _in_place(lambda tensors: group.broadcast(tensors, options))


def _reduce(asked: _Asked) -> Start:
    group, options = asked.group, asked.options("ReduceOptions")
    options.rootRank = _checked_root(asked)
    return _in_place(lambda tensors: group.reduce(tensors, options))


def _gather(asked: _Asked) -> Start:
    group, options = asked.group, asked.options("GatherOptions")
    options.rootRank = _checked_root(asked)
    if group.rank() != options.rootRank:
        return lambda into, source: group.gather([], list(source), options)
    return lambda into, source: group.gather([list(into)], list(source), options)


def _scatter(asked: _Asked) -> Start:
    group, options = asked.group, asked.options("ScatterOptions")
    options.rootRank = _checked_root(asked)
    if group.rank() != options.rootRank:
        return lambda into, source: group.scatter(list(into), [], options)
    return lambda into, source: group.scatter(list(into), [list(source)], options)


def _send(asked: _Asked) -> Start:
    group, peer = asked.group, _checked_root(asked)
    return lambda into, source: group.send(list(source), peer, 0)


def _receive(asked: _Asked) -> Start:
    group, peer = asked.group, _checked_root(asked)
    return lambda into, source: group.recv(list(into), peer, 0)


def _barrier(asked: _Asked) -> Start:
    group, options = asked.group, asked.options("BarrierOptions")
    return lambda into, source: group.barrier(options)


def _checked_root(asked: _Asked) -> int:
    asked.check(
        0 <= asked.root < asked.group.size(), f"its root or peer {asked.root} is no rank of the group"
    )
    return asked.root


def _as_type(start: Start, dtype: str) -> Start:
    """A collective of the same bytes as another element type."""
    import torch

    other = getattr(torch, dtype)

    def run(received: Sequence[Any], sent: Sequence[Any]) -> Any:
        views = {id(tensor): tensor.view(other) for tensor in (*received, *sent)}
        return start([views[id(tensor)] for tensor in received], [views[id(tensor)] for tensor in sent])

    return run


_MAKERS: dict[str, Callable[[_Asked], Start]] = {
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
    "broadcast": _broadcast,
    "reduce": _reduce,
    "gather_to_root": _gather,
    "scatter_from_root": _scatter,
    "send": _send,
    "receive": _receive,
    "barrier": _barrier,
}
