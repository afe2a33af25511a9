"""Memory of a replay: given buffers allocated and filled, and tensors taken out of buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfcast.errors import TraceError
from perfcast.replays.fill.values import fill_tensor
from perfcast.replays.program.program import Buffer, Fill, Filling, ReplayProgram, Slot
from perfcast.traces.events import NONE
from perfcast.units import GIB, KIB

if TYPE_CHECKING:
    import torch


class Memory:
    """The given buffers of a program that are allocated now."""

    def __init__(self, program: ReplayProgram, seed: int = 0) -> None:
        self._program = program
        self._seed = seed
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._filled: dict[int, list[int]] = {}
        for index, slot in enumerate(program.slots):
            if slot.filling is not None:
                self._filled.setdefault(slot.buffer, []).append(index)

    def allocate(self, buffer: int) -> None:
        """Allocate a given buffer and fill it.

        Raises:
            TraceError: There is not so much memory, the device is not there, or values cannot be read.
        """
        import torch

        own = self._program.buffers[buffer]
        storage = new_storage(own)
        torch.empty(0, dtype=torch.uint8, device=own.device).set_(storage).zero_()
        self._storages[buffer] = storage
        self.fill(buffer)

    def fill(self, buffer: int, *, only_whole_numbers: bool = False) -> None:
        """Fill the slots of a buffer that is allocated; ``only_whole_numbers`` leaves others as they are."""
        for index in self._filled.get(buffer, ()):
            slot = self._program.slots[index]
            tensor = self.tensor(index)
            if slot.filling is None or (only_whole_numbers and tensor.is_floating_point()):
                continue
            fill_tensor(tensor, slot.filling, self._seed + index)

    def free(self, buffer: int) -> None:
        """Let a buffer go; its memory is freed once no tensor holds it."""
        self._storages.pop(buffer, None)

    def tensor(self, index: int) -> torch.Tensor:
        """A slot's tensor in its given buffer."""
        slot = self._program.slots[index]
        return window(self._storages[slot.buffer], slot)


def new_storage(buffer: Buffer) -> torch.UntypedStorage:
    """Memory for a buffer.

    Raises:
        TraceError: There is not so much memory, or the device is not there.
    """
    import torch

    try:
        tensor = torch.empty(buffer.num_bytes, dtype=torch.uint8, device=buffer.device)
        return tensor.untyped_storage()
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0][:200]
        where = f"{buffer.num_bytes:,} bytes on {buffer.device}"
        raise TraceError(f"cannot allocate {where}: {reason}") from error


def window(storage: torch.UntypedStorage, slot: Slot) -> torch.Tensor:
    """The tensor that a slot is, in a storage.

    Raises:
        RuntimeError: It does not lie within the storage.
    """
    import torch

    empty = torch.empty(0, dtype=element_type(slot.dtype), device=storage.device)
    needed = slot.offset_elements + slot.reach_elements
    if needed * empty.element_size() > storage.nbytes():
        raise RuntimeError(f"a tensor of {needed} elements does not lie within {storage.nbytes()} bytes")
    return empty.set_(storage, slot.offset_elements, slot.shape, slot.strides)


def element_type(word: str) -> Any:
    """PyTorch's element type of this name.

    Raises:
        TraceError: There is none.
    """
    import torch

    found = getattr(torch, word, None) if word.isidentifier() else None
    if not isinstance(found, torch.dtype):
        raise TraceError(f"'{word[:40]}' is no element type of this PyTorch")
    return found


def stand_in(slot: Slot) -> torch.Tensor:
    """A tensor of zeros (deviates, if it holds fractions) in the place of one that no call makes."""
    import torch

    tensor = torch.empty_strided(slot.shape, slot.strides, dtype=element_type(slot.dtype), device=slot.device)
    kind = Fill.NORMAL if tensor.is_floating_point() else Fill.ZEROS
    fill_tensor(tensor, slot.filling or Filling(kind, scale=_STAND_IN_SCALE), seed=0)
    return tensor


_STAND_IN_SCALE = 0.02


def given_buffers(program: ReplayProgram) -> Sequence[int]:
    """Buffers that no call makes, in order, those that some slot lies in."""
    used = {slot.buffer for slot in program.slots}
    return [i for i, buffer in enumerate(program.buffers) if buffer.maker == NONE and i in used]


def given_bytes(program: ReplayProgram) -> int:
    """Memory that is prepared in advance when nothing is freed."""
    return sum(program.buffers[index].num_bytes for index in given_buffers(program))


def made_peak_bytes(program: ReplayProgram) -> int:
    """The most memory that buffers made by calls take at one call."""
    return replace(program, buffers=tuple(b for b in program.buffers if not b.is_given)).least_bytes


def missing_device(program: ReplayProgram) -> str:
    """A device of the program's that is not on this machine ('cuda:0'); '' where all are."""
    import torch

    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    here = {"cpu", "meta", *([found.type] if found is not None else [])}
    names = (buffer.device for buffer in program.buffers if torch.device(buffer.device).type not in here)
    return next(names, "")


def available_bytes(program: ReplayProgram) -> int:
    """Memory that is free on the device where most of the program's buffers lie."""
    import torch

    devices = {torch.device(buffer.device).type for buffer in program.buffers}
    if "cuda" in devices and torch.cuda.is_available():
        return int(torch.cuda.mem_get_info()[0])
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return _ASSUMED_FREE_BYTES
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found[0]) * KIB if found else _ASSUMED_FREE_BYTES


#: Where the system does not say what is free.
_ASSUMED_FREE_BYTES = 4 * GIB
