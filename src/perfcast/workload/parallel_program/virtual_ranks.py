"""One rank of a parallelised program, captured in this process without the others.

The program is PyTorch's own: it makes meshes, shards its parameters with ``fully_shard`` and its layers
with ``parallelize_module``, splits itself into pipeline stages, and runs collectives. Here it meets a process
group whose collectives do nothing (PyTorch's fake one) and tensors that hold nothing, so that any rank of
any world can be captured. What a lonely rank must be told (``parallel_program_messages``), what reads values
(``parallel_program_replicas``) and what tells one stream from another (``parallel_program_streams``) is put
in place for as long as the program lives.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from torch import distributed

from perfcast.core.graph import Graph
from perfcast.errors import CaptureError, InputError
from perfcast.torch_internals.distributed import FakeStore, forget_shardings, group_ranks
from perfcast.torch_internals.eager import FakeTensorMode
from perfcast.workload.capture.capture import CaptureOptions, build_symbolic, graph_of, record
from perfcast.workload.parallel_program.distributed_calls import DistributedCalls
from perfcast.workload.parallel_program.messages import Messages, capture_with_messages, object_collectives
from perfcast.workload.parallel_program.replicas import captured_replicas
from perfcast.workload.parallel_program.shards import (
    PartsOptimizer,
    Sharding,
    lazy_shards,
    shardings_of,
)
from perfcast.workload.parallel_program.streams import StreamPlan, VirtualStreams
from perfcast.workload.step import Program


@dataclass(frozen=True)
class RankCapture:
    """One step of one rank.

    Attributes:
        graph: What the rank does: its parts of the parameters, its batch, its collectives.
        program: As it was built; its module holds fake parameters.
        streams: Where the graph's nodes run, and what they wait for there.
        shardings: Of the distributed parameters.
        groups: Ranks of each group that it is in, with the group's own description ('mesh_tp').
    """

    graph: Graph
    program: Program
    streams: StreamPlan
    shardings: tuple[Sharding, ...]
    groups: tuple[tuple[str, tuple[int, ...]], ...]


def capture_on_virtual_rank(
    build: Callable[[], Program], options: CaptureOptions, *, rank: int, world_size: int
) -> tuple[Graph, Program]:
    """Build the program as one rank of a world and capture one step of it in steady state.

    A first step runs unseen, since the first one makes what later ones reuse. The graph holds what this
    rank does: its parts of the parameters, its batch, its collectives (see ``core.collective``). Layers
    are not folded: which weights are gathered ahead depends on a layer's neighbours.

    Args:
        build: Makes the module and its inputs, with ``torch.distributed`` set up. It runs under fake
            tensors; meshes are over the device type 'cpu'.
        rank, world_size: The rank to be and the number of ranks.

    Returns:
        The graph and the program (its module holds fake parameters).

    Raises:
        CaptureError: The program raised, its control flow depends on values, or a process group is
            already set up.
        InputError: No such rank.
    """
    found = RankCaptures(build, options, world_size).capture(rank)
    return found.graph, found.program


class RankCaptures:
    """Captures ranks of one world, each once, and before it those whose messages it needs.

    Errors are those of ``capture_on_virtual_rank``.
    """

    def __init__(self, build: Callable[[], Program], options: CaptureOptions, world_size: int) -> None:
        self._build, self._options, self._world_size = build, options, world_size
        self._messages: Messages = {}
        self._known: dict[int, RankCapture] = {}

    def capture(self, rank: int) -> RankCapture:
        """A step of a rank. What PyTorch warns of is said of the first one alone."""
        with warnings.catch_warnings():
            if self._known:
                warnings.simplefilter("ignore")
            return capture_with_messages(rank, self._messages, self._capture, self._known)

    def _built(self) -> Program:
        with DistributedCalls():
            return build_symbolic(self._build, self._options)

    @contextmanager
    def _being(self, rank: int, messages: Messages, streams: VirtualStreams) -> Iterator[None]:
        """All that surrounds a program which is one rank."""
        with (
            virtual_rank(rank, self._world_size), FakeTensorMode(allow_non_fake_inputs=True),
            object_collectives(messages), captured_replicas(), lazy_shards(), streams.in_place(),
        ):  # fmt: skip
            yield

    def _capture(self, rank: int, messages: Messages) -> RankCapture:
        streams, options = VirtualStreams(), self._options
        with self._being(rank, messages, streams):
            program = self._built()
            optimizer = None
            if options.training and options.optimizer.name != "none":
                optimizer = PartsOptimizer(options.optimizer, program.module)
            weights = list(program.module.parameters())
            for _ in range(2):
                recording = record(program, options, optimizer, weights, _Inside(streams, program))
            shardings = shardings_of(program.module)
            return RankCapture(graph_of(recording, program), program, streams.plan(), shardings, _groups())


class _Inside(ExitStack):
    """What is entered within all else around a step."""

    def __init__(self, streams: VirtualStreams, program: Program) -> None:
        super().__init__()
        self._streams, self._program = streams, program

    def __enter__(self) -> _Inside:
        super().__enter__()
        self.enter_context(DistributedCalls())
        self.enter_context(self._streams.following(finds_phases=self._program.run is not None))
        return self


def _groups() -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Groups of this rank, in the order in which they were made."""
    known = group_ranks()
    own = (group for group in known if isinstance(group, distributed.ProcessGroup))  # not those of others
    return tuple((group.group_desc, tuple(known[group])) for group in own)


@contextmanager
def virtual_rank(rank: int, world_size: int) -> Iterator[None]:
    """This process as one rank of a world: ``torch.distributed`` is set up, and taken down in the end.

    ``RANK`` and ``WORLD_SIZE`` are in the environment, as a launcher would set them.

    Raises:
        CaptureError: A process group is already set up; InputError: no such rank.
    """
    if not 0 <= rank < world_size:
        raise InputError(
            f"rank {rank} is not one of a world of {world_size}: ranks are 0 to {world_size - 1}"
        )
    if distributed.is_initialized():
        raise CaptureError(
            "a process group is already set up in this process; a program that is captured on a virtual "
            "rank must not call init_process_group, which is done for it"
        )
    with _environment(RANK=str(rank), WORLD_SIZE=str(world_size)):
        distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world_size)
        try:
            yield
        finally:
            distributed.destroy_process_group()
            forget_shardings()


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
