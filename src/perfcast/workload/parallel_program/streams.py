"""On which stream each node of a program runs, and what it waits for there.

A program that overlaps communication with compute says so in three ways, and all three are followed while it
is captured:

* streams and events of its device (``fully_shard`` gathers weights on streams of its own). Meshes are over
  'cpu', whose module ``torch.cpu`` has streams that do nothing; here they remember;
* ``Work.wait()`` of a collective that was begun with ``async_op=True``;
* ``wait_tensor`` of a functional collective, which an ``AsyncCollectiveTensor`` calls when it is first used.

A collective runs on a stream of its communicator, behind what the current stream holds; waiting for it keeps
back the current stream, not the host (PyTorch, ProcessGroupNCCL: ``WorkNCCL::synchronize`` lets the current
stream wait for an event). Collectives of one group run in the order of their issue, on whichever stream they
were issued: a communicator has one queue. A send or receive of its own has a communicator of the two ranks;
what ``batch_isend_irecv`` issues together is on the group's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed import distributed_c10d
from torch.utils.weak import WeakIdKeyDictionary

from perfcast.core.graph import Phase
from perfcast.core.tensor import Category
from perfcast.torch_internals import replaced, wrapped
from perfcast.torch_internals.distributed import c10d, functional_collectives
from perfcast.torch_internals.eager import (
    TorchDispatchMode,
    current_autograd_node,
    dispatch_mode_stack,
    is_traceable_wrapper_subclass_type,
    tree_leaves,
)
from perfcast.workload.capture.recorder import Recorder
from perfcast.workload.parallel_program.collectives import collective_of

#: Name of the stream on which a program computes if it asks for no other.
COMPUTE = "compute"
_POINT_TO_POINT = ("send", "receive")


@dataclass(frozen=True)
class StreamPlan:
    """Of each node of a graph, its stream and what it waits for.

    Attributes:
        names: Of the streams: 'compute'; 'side 1', 'side 2' … that the program made; 'group 0:8:1' of the
            communicator of a group; 'pair 0,1' of two ranks.
        streams: Of each node, an index into ``names``.
        after: Of each node, the nodes on other streams that have ended before it starts.
        functional: Names of the streams that ran functional collectives, as distributed tensors issue them.
    """

    names: tuple[str, ...]
    streams: tuple[int, ...]
    after: tuple[tuple[int, ...], ...]
    functional: frozenset[str] = frozenset()


#: Of each stream, the last node that is waited for; those before it on that stream have then ended.
Ends = dict[str, int]


class VirtualStream:
    """A queue of nodes; what it holds is known by the last one, and by what the next one waits for."""

    def __init__(self, device: VirtualStreams, name: str) -> None:
        self.device, self.name = device, name
        self.last: int | None = None
        self.pending: Ends = {}

    def holds(self) -> Ends:
        """Nodes after whose ends all that was issued here has ended."""
        own = {} if self.last is None else {self.name: self.last}
        return {**self.pending, **own}

    def wait_for(self, ends: Ends) -> None:
        """What comes next here waits for these nodes."""
        for name, node in ends.items():
            if name != self.name and node > self.pending.get(name, -1):
                self.pending[name] = node

    def wait_stream(self, stream: VirtualStream) -> None:
        """What comes next here waits for all that is on another stream."""
        self.device.settle()
        self.wait_for(stream.holds())

    def wait_event(self, event: VirtualEvent) -> None:
        """What comes next here waits for an event."""
        self.device.settle()
        self.wait_for(event.ends)

    def record_event(self, event: VirtualEvent | None = None) -> VirtualEvent:
        """An event that happens when all that was issued here has ended."""
        event = event or VirtualEvent(self.device)
        event.record(self)
        return event

    def synchronize(self) -> None:
        """The host waits for all that is here."""
        self.device.hold_back(self.holds())


class VirtualEvent:
    """The end of the nodes that a stream held when the event was recorded."""

    def __init__(self, device: VirtualStreams) -> None:
        self.device, self.ends = device, dict[str, int]()

    def record(self, stream: VirtualStream | None = None) -> None:
        """Happen when all that a stream holds now has ended."""
        self.device.settle()
        self.ends = (stream or self.device.current).holds()

    def wait(self, stream: VirtualStream | None = None) -> None:
        """Let a stream wait."""
        (stream or self.device.current).wait_event(self)

    def synchronize(self) -> None:
        """Let the host wait."""
        self.device.hold_back(self.ends)

    def query(self) -> bool:
        """Whether it has happened, as a program that asks would like it."""
        return True


class VirtualStreams:
    """The streams of one virtual rank, for as long as its program lives.

    ``in_place`` puts them where the program looks for its device's; ``following`` watches one step.
    """

    def __init__(self) -> None:
        self._recorder: Recorder | None = None
        self._default = VirtualStream(self, COMPUTE)
        self.current = self._default
        self._streams = {COMPUTE: self._default}
        self._is_batch = False
        self._begin(None)

    def _begin(self, recorder: Recorder | None) -> None:
        self._recorder = recorder
        self._node_streams: list[str] = []
        self._after: list[tuple[int, ...]] = []
        self._works: dict[int, tuple[Any, Ends]] = {}
        self._written: Any = WeakIdKeyDictionary()
        self._functional = set[str]()
        for stream in self._streams.values():
            stream.last, stream.pending = None, {}

    # ---- one step ---------------------------------------------------------------------------

    @contextmanager
    def following(self, *, finds_phases: bool) -> Iterator[None]:
        """Watch what the recorder around this context writes down.

        Args:
            finds_phases: Tell the recorder whether forward or backward runs, and which tensors were there
                before, for a program whose step runs both in its own order on inputs of its own.
        """
        recorder = next(m for m in dispatch_mode_stack() if isinstance(m, Recorder))
        self._begin(recorder)
        with _Watching(self, recorder, finds_phases):
            yield
        self.settle()
        self._recorder = None

    def plan(self) -> StreamPlan:
        """What was seen of the step that was followed last."""
        names = tuple(dict.fromkeys((COMPUTE, *self._node_streams)))
        index = {name: position for position, name in enumerate(names)}
        streams = tuple(index[name] for name in self._node_streams)
        return StreamPlan(names, streams, tuple(self._after), frozenset(self._functional))

    def settle(self) -> None:
        """Give the nodes that were recorded since the last call to the current stream."""
        if self._recorder is not None:
            for node in range(len(self._node_streams), len(self._recorder.nodes)):
                self._place(node, self.current)

    def hold_back(self, ends: Ends) -> None:
        """The host waits: whatever it issues next, on any stream, comes after these nodes."""
        self.settle()
        for stream in self._streams.values():
            stream.wait_for(ends)

    def _place(self, node: int, stream: VirtualStream) -> None:
        self._after.append(tuple(sorted(stream.pending.values())))
        self._node_streams.append(stream.name)
        stream.last, stream.pending = node, {}

    # ---- collectives ------------------------------------------------------------------------

    def place_collective(self, name: str, facts: dict[str, Any], out: Any, *, is_functional: bool) -> None:
        """The node that was recorded last is a collective: it is behind the current stream, beside it."""
        assert self._recorder is not None
        node = len(self._recorder.nodes) - 1
        stream = self._communicator(name, facts)
        stream.wait_for(self.current.holds())
        self._place(node, stream)
        if is_functional:
            self._functional.add(stream.name)
        ends = {stream.name: node}
        for value in tree_leaves(out):
            if isinstance(value, torch.Tensor):
                self._written[value.untyped_storage()] = ends
            elif isinstance(value, torch.ScriptObject):
                work = c10d.Work.unbox(value)
                self._works[id(work)] = (work, ends)

    def _communicator(self, name: str, facts: dict[str, Any]) -> VirtualStream:
        key = f"group {facts['ranks']}"
        if name in _POINT_TO_POINT and not self._is_batch and "peer" in facts:
            low, high = sorted((distributed_c10d.get_rank(), facts["peer"]))
            key = f"pair {low},{high} of {facts['ranks']}"
        return self._streams.setdefault(key, VirtualStream(self, key))

    def wait_for_tensor(self, tensor: torch.Tensor) -> None:
        """The current stream waits for the functional collective that writes a tensor."""
        self._wait_for(self._written.get(tensor.untyped_storage()))

    def wait_for_work(self, work: Any) -> None:
        """The current stream waits for a collective by its handle."""
        self._wait_for(self._works.get(id(work), (None, None))[1])

    def _wait_for(self, ends: Ends | None) -> None:
        if ends is not None:
            self.settle()
            self.current.wait_for(ends)

    # ---- in place of the device's -----------------------------------------------------------

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """``torch.cpu`` has these streams, and collectives are waited for where the program waits."""
        with ExitStack() as stack:
            for name, value in (
                ("Stream", self._make_stream),
                ("Event", lambda *args, **kwargs: VirtualEvent(self)),
                ("current_stream", lambda device=None: self.current),
                ("stream", self._entered),
                ("synchronize", lambda device=None: self._synchronize()),
            ):
                stack.enter_context(replaced(torch.cpu, name, value))
            stack.enter_context(wrapped(c10d.FakeWork, "wait", self._noting))
            stack.enter_context(replaced(functional_collectives, "_maybe_wrap_tensor", _unwaited))
            for module in (distributed_c10d, torch.distributed):
                stack.enter_context(wrapped(module, "batch_isend_irecv", self._batch))
            yield

    def _make_stream(self, *args: Any, **kwargs: Any) -> VirtualStream:
        name = f"side {sum(key.startswith('side') for key in self._streams) + 1}"
        return self._streams.setdefault(name, VirtualStream(self, name))

    @contextmanager
    def _entered(self, stream: VirtualStream | None) -> Iterator[None]:
        self.settle()
        before, self.current = self.current, stream or self.current
        try:
            yield
        finally:
            self.settle()
            self.current = before

    def _synchronize(self) -> None:
        self.settle()
        for stream in tuple(self._streams.values()):
            self.hold_back(stream.holds())

    def _noting(self, wait: Callable[..., Any]) -> Callable[..., Any]:
        def noted(work: Any, *args: Any, **kwargs: Any) -> Any:
            self.wait_for_work(work)
            return wait(work, *args, **kwargs)

        return noted

    def _batch(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def batch(operations: Any) -> Any:
            self._is_batch = True
            try:
                return call(operations)
            finally:
                self._is_batch = False

        return batch


def _unwaited(tensor: torch.Tensor) -> Any:
    """The result of a functional collective, waited for when it is used."""
    if not tensor.requires_grad:
        return functional_collectives.AsyncCollectiveTensor(tensor)
    return _Unwaited.apply(tensor)  # type: ignore[no-untyped-call]


class _Unwaited(torch.autograd.Function):
    """The same, with the tensor's gradient."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> Any:
        return functional_collectives.AsyncCollectiveTensor(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return gradient


class _Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees operators before a recorder does."""

    def __init__(self, streams: VirtualStreams, recorder: Recorder, finds_phases: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._streams, self._recorder, self._finds_phases = streams, recorder, finds_phases

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if any(is_traceable_wrapper_subclass_type(kind) for kind in types):
            return NotImplemented
        kwargs = kwargs or {}
        if self._finds_phases:
            self._note_phase(args)
        if func is torch.ops._c10d_functional.wait_tensor.default:
            self._streams.wait_for_tensor(args[0])
        if func.namespace not in _WITH_COLLECTIVES:
            return func(*args, **kwargs)
        self._streams.settle()
        before = len(self._recorder.nodes)
        out = func(*args, **kwargs)
        collective = collective_of(func, args, kwargs, out)
        if collective is not None and len(self._recorder.nodes) > before:
            self._streams.place_collective(
                collective.name, collective.facts, out, is_functional=func.namespace != "c10d"
            )
        return out

    def _note_phase(self, args: tuple[Any, ...]) -> None:
        if self._recorder.phase is not Phase.OPTIMIZER:
            inside = current_autograd_node() is not None
            self._recorder.announce(Phase.BACKWARD if inside else Phase.FORWARD)
        tensors = (value for value in tree_leaves(args) if isinstance(value, torch.Tensor))
        self._recorder.register(tensors, Category.INPUT)


_WITH_COLLECTIVES = ("c10d", "_c10d_functional", "_dtensor")
