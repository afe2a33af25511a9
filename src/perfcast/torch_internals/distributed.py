"""Private names of ``torch.distributed`` that capturing a parallel program uses.

=================================  =====================================================================
process groups                     ``c10d`` (the C++ classes), ``FakeStore``, ``group_ranks``
functional collectives             ``functional_collectives``
distributed tensors                ``StridedShard``, ``forget_shardings``
FSDP2                              ``fsdp_parameters``, whose ``_chunk_with_empty`` is replaced
pipelining                         ``stages_vote_alone``
=================================  =====================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from torch.distributed.pipelining import PipelineStage, schedules

from perfcast.torch_internals import needed_for, replaced, unsupported, wrapped

with needed_for("capturing a parallel program"):
    from torch._C import _distributed_c10d as c10d
    from torch.distributed import _functional_collectives as functional_collectives
    from torch.distributed.distributed_c10d import _get_default_group as default_group
    from torch.distributed.distributed_c10d import _world
    from torch.distributed.fsdp._fully_shard import _fsdp_param as fsdp_parameters
    from torch.distributed.tensor.debug import (
        _clear_fast_path_sharding_prop_cache,
        _clear_python_sharding_prop_cache,
    )
    from torch.distributed.tensor.placement_types import _StridedShard as StridedShard
    from torch.testing._internal.distributed.fake_pg import FakeStore

__all__ = [
    "FakeStore",
    "StridedShard",
    "c10d",
    "default_group",
    "forget_shardings",
    "fsdp_parameters",
    "functional_collectives",
    "group_ranks",
    "stages_vote_alone",
]


def group_ranks() -> dict[Any, dict[int, int]]:
    """Of each process group, its ranks in the world and in the group."""
    return _world.pg_group_ranks


def forget_shardings() -> None:
    """Distributed tensors remember, by the shape of a mesh, results that name its process groups."""
    _clear_python_sharding_prop_cache()  # type: ignore[no-untyped-call]
    _clear_fast_path_sharding_prop_cache()  # type: ignore[no-untyped-call]


# ---- pipelining ----------------------------------------------------------------------------------------

#: Where the stages of a schedule agree, by messages, on whether their shapes are known beforehand: in torch
#: 2.12 to 2.14, and from 2.15 on. Before, each stage decides for itself.
_VOTES = ("_warmup_p2p", "_initialize_pipeline_distributed_state")


@contextmanager
def stages_vote_alone() -> Iterator[None]:
    """Stages that vote by messages are each taken to vote like this rank's.

    Raises:
        UnsupportedTorchError: A pipeline stage is made with a PyTorch whose stages agree otherwise.
    """
    schedule = getattr(schedules, "_PipelineSchedule", None)
    name = next((vote for vote in _VOTES if hasattr(schedule, vote)), None)
    if name is not None:
        context = wrapped(schedule, name, _voting_alone)
    elif hasattr(PipelineStage, "_shape_inference"):
        context = nullcontext()
    else:
        context = replaced(PipelineStage, "__init__", _refuse_stage)
    with context:
        yield


def _voting_alone(vote: Callable[..., None]) -> Callable[..., None]:
    with needed_for("capturing a pipeline"):
        from torch.distributed.pipelining._utils import InferenceMode

    def vote_alone(schedule: Any, stages: list[Any], has_backward: bool, is_first: bool) -> None:
        if (
            vote.__name__ == _VOTES[1]
        ):  # makes groups too, and only refuses stages that do not know their shapes
            with replaced(InferenceMode, "needs_dynamic", lambda meta, has_backward: False):
                vote(schedule, stages, has_backward, is_first)
        for stage in stages:
            if isinstance(stage, PipelineStage):
                needs = InferenceMode.needs_dynamic(stage._user_meta, has_backward)
                stage._inference_mode = InferenceMode.DYNAMIC if needs else InferenceMode.STATIC

    return vote_alone


def _refuse_stage(*args: Any, **kwargs: Any) -> None:
    raise unsupported("capturing a pipeline", "its stages agree on shapes in an unknown way")
