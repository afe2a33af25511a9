"""One rank of a replay among the others: how it reaches them, and the groups that programs name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from perfcast.errors import TraceError
from perfcast.files.typed_json import read_typed, write_typed
from perfcast.measure.collectives.environment import Place
from perfcast.measure.collectives.launch import first_sentence
from perfcast.measure.collectives.plan import BACKENDS
from perfcast.replays.communication.groups import GroupKey

Value = TypeVar("Value")

#: How long a rank waits for another before it gives up.
STALL_SECONDS = 120.0


@dataclass
class RankContext:
    """This process among the ranks of a replay; made by ``join``.

    ``control`` is a group of the host through which ranks agree; nothing that is measured goes there.
    """

    rank: int
    world_size: int
    backend: str
    device: str
    control: Any
    stall_seconds: float = STALL_SECONDS
    _groups: dict[GroupKey, Any] = field(default_factory=dict)

    @property
    def is_gloo(self) -> bool:
        """Whether collectives are of a processor's memory."""
        return self.backend == "gloo"

    def barrier(self) -> None:
        """Wait until all ranks are here."""
        import torch.distributed as dist

        dist.barrier(group=self.control)

    def synchronize(self) -> None:
        """Wait until this rank's device is done."""
        if not self.is_gloo:
            import torch

            torch.cuda.synchronize()

    def gather(self, value: Value) -> list[Value]:
        """Every rank's value, in order of ranks; plain data only."""
        import torch
        import torch.distributed as dist

        own = torch.frombuffer(bytearray(write_typed(value)), dtype=torch.uint8)
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.world_size)]
        dist.all_gather(sizes, torch.tensor([len(own)]), group=self.control)
        longest = max(int(size) for size in sizes)
        texts = [torch.zeros(longest, dtype=torch.uint8) for _ in range(self.world_size)]
        padded = torch.zeros(longest, dtype=torch.uint8)
        padded[: len(own)] = own
        dist.all_gather(texts, padded, group=self.control)
        return [
            read_typed(bytes(text[: int(size)].tolist())) for text, size in zip(texts, sizes, strict=True)
        ]

    def make_groups(self, wanted: Iterable[GroupKey]) -> None:
        """Make the groups that any rank's program names; all ranks call this together.

        Raises:
            TraceError: A group with ranks that are not there.
        """
        import torch.distributed as dist

        every = sorted({key for keys in self.gather(tuple(wanted)) for key in keys})
        for key in every:
            if key in self._groups:
                continue
            if not key.ranks or max(key.ranks) >= self.world_size:
                raise TraceError(
                    f"the group '{key.name}' has rank {max(key.ranks, default=-1)}, and {self.world_size} "
                    "ranks replay: play as many (--ranks), or let those that are not there take their time "
                    "(--emulate [CLUSTER]:RANKS)"
                )
            handle = dist.new_group(
                list(key.ranks),
                timeout=timedelta(seconds=self.stall_seconds),
                backend=self.backend,
                use_local_synchronization=False,
            )
            if self.rank in key.ranks:
                self._groups[key] = handle

    def group(self, key: GroupKey) -> Any:
        """The ``ProcessGroup`` of a key.

        Raises:
            TraceError: It was not made, or this rank is not in it.
        """
        if key not in self._groups:
            raise TraceError(
                f"rank {self.rank} is not in the group '{key.name}' of ranks {list(key.ranks)[:8]}"
            )
        return self._groups[key]

    def leave(self) -> None:
        """Wait for the others and end the connection."""
        import torch.distributed as dist

        self.barrier()
        self._groups.clear()
        dist.destroy_process_group()


def join(place: Place, backend: str = "gloo", stall_seconds: float = STALL_SECONDS) -> RankContext:
    """Meet the other ranks.

    Raises:
        TraceError: No such backend, no GPU for this rank, or the others do not come.
    """
    import torch
    import torch.distributed as dist

    if backend not in BACKENDS:
        raise TraceError(f"collectives go by {' or '.join(BACKENDS)}, not '{backend}'")
    device = "cpu"
    if backend == "nccl":
        if torch.cuda.device_count() <= place.local_rank:
            raise TraceError(
                f"NCCL needs a GPU for each rank of a machine, and PyTorch sees {torch.cuda.device_count()}: "
                "use --backend gloo, fewer ranks, or torchrun over several machines"
            )
        device = f"cuda:{place.local_rank}"
        torch.cuda.set_device(place.local_rank)
    timeout = timedelta(seconds=stall_seconds)
    try:
        dist.init_process_group(
            backend,
            init_method=place.init_method,
            rank=place.rank,
            world_size=place.world_size,
            timeout=timeout,
        )
        control = dist.new_group(backend="gloo", timeout=timeout)
    except (RuntimeError, OSError, ValueError) as error:
        raise TraceError(f"rank {place.rank} did not find the others: {first_sentence(str(error))}") from None
    return RankContext(place.rank, place.world_size, backend, device, control, stall_seconds)
