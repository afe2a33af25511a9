"""One rank of a parallelised program, captured in this process without the others.

The program is PyTorch's own: it makes meshes, shards its parameters with ``fully_shard`` and its layers
with ``parallelize_module``, and runs collectives. Here it meets a process group whose collectives do
nothing (PyTorch's fake one) and tensors that hold nothing, so that any rank of any world can be captured.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import distributed
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.tensor import debug

from perfcast.core.graph import Graph
from perfcast.errors import CaptureError, InputError
from perfcast.workload.capture import CaptureOptions, build_symbolic, graph_of, record
from perfcast.workload.distributed_calls import DistributedCalls
from perfcast.workload.step import Program, build_optimizer


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
    with virtual_rank(rank, world_size), _hints(), FakeTensorMode(allow_non_fake_inputs=True):
        with DistributedCalls():
            program = build_symbolic(build, options)
        optimizer = None
        if options.training and options.optimizer.name != "none":
            optimizer = build_optimizer(options.optimizer, program.module)
        weights = list(program.module.parameters())
        record(program, options, optimizer, weights, DistributedCalls())
        recording = record(program, options, optimizer, weights, DistributedCalls())
        return graph_of(recording, program), program


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
    from torch.testing._internal.distributed.fake_pg import FakeStore

    with _environment(RANK=str(rank), WORLD_SIZE=str(world_size)):
        distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world_size)
        try:
            yield
        finally:
            distributed.destroy_process_group()
            _forget_shardings()


@contextmanager
def _hints() -> Iterator[None]:
    """Where PyTorch's own words do not say what to do, say it."""
    try:
        yield
    except CaptureError as error:
        if "its data is not allocated yet" not in str(error):
            raise
        raise CaptureError(
            f"{error} A part of PyTorch that reads values in C++ cannot be captured; "
            "DistributedDataParallel is one: shard with fully_shard over a mesh of (ranks, 1) instead, which "
            "keeps whole weights on every rank and reduces gradients over all."
        ) from error


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


def _forget_shardings() -> None:
    """Distributed tensors remember, by the shape of a mesh, results that name its process groups."""
    debug._clear_sharding_prop_cache()  # type: ignore[no-untyped-call]
