"""Given tensors filled as a program says: deviates, offsets of bags, rows of tables, recorded values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfcast.core.embedding.reuse import rescaled_reuse, reuse_of_fractions
from perfcast.errors import TraceError
from perfcast.files.limits import TABLE_BYTES
from perfcast.files.reading import read_bytes
from perfcast.replays.program.program import Fill, Filling
from perfcast.traces.execution_trace.storages import reach_elements
from perfcast.units import MIB
from perfcast.workload.recommender.indices import draw_from_reuse, draw_uniform

if TYPE_CHECKING:
    import torch

#: Deviates drawn for one tensor at most; longer tensors repeat them: drawing is slow, copying is not.
_MAX_DRAWN = 4 * MIB


def fill_tensor(tensor: torch.Tensor, filling: Filling, seed: int) -> None:
    """Put into a tensor what its filling says; equal seeds give equal values.

    Raises:
        TraceError: The recorded values cannot be read.
    """
    import torch

    with torch.no_grad():
        tensor = _apart(tensor)
        if filling.kind is Fill.ZEROS or tensor.numel() == 0:
            tensor.zero_()
        elif filling.kind in (Fill.NORMAL, Fill.POSITIVE, Fill.UNIFORM):
            _fill_repeated(tensor, filling, torch.Generator().manual_seed(seed))
        else:
            values = _numbers(tensor.numel(), filling, seed)
            tensor.copy_(torch.from_numpy(values).reshape(tensor.shape))


def _apart(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with each of its elements once: what is expanded or overlaps holds some several times."""
    for dim, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if stride == 0 and size > 1:
            tensor = tensor.narrow(dim, 0, 1)
    reach = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1 and stride <= reach:
            return tensor.as_strided((reach_elements(tensor.shape, tensor.stride()),), (1,))
        reach += (size - 1) * stride
    return tensor


def _fill_repeated(tensor: torch.Tensor, filling: Filling, generator: torch.Generator) -> None:
    """Random numbers, drawn in place; a long tensor holds the same ones again and again."""
    import torch

    if tensor.numel() <= _MAX_DRAWN or not tensor.is_contiguous() or tensor.device.type != "cpu":
        drawn = tensor if tensor.device.type == "cpu" else torch.empty_like(tensor, device="cpu")
        _draw(drawn, filling, generator)
        if drawn is not tensor:
            tensor.copy_(drawn)
        return
    flat = tensor.view(-1)
    first = flat[:_MAX_DRAWN]
    _draw(first, filling, generator)
    for start in range(_MAX_DRAWN, flat.numel(), _MAX_DRAWN):
        piece = flat[start : start + _MAX_DRAWN]
        piece.copy_(first[: piece.numel()])


def _draw(tensor: torch.Tensor, filling: Filling, generator: torch.Generator) -> None:
    if filling.kind is Fill.NORMAL:
        tensor.normal_(0.0, filling.scale, generator=generator)
    elif filling.kind is Fill.POSITIVE:
        tensor.uniform_(filling.low, filling.high, generator=generator)
    else:
        tensor.random_(int(filling.low), int(filling.high) + 1, generator=generator)


def _numbers(count: int, filling: Filling, seed: int) -> np.ndarray:
    """Whole numbers (or recorded values) by meaning, shape [count]."""
    rng = np.random.default_rng(seed)
    if filling.kind is Fill.OFFSETS:
        return np.arange(count, dtype=np.int64) * int(filling.high) // max(count - filling.has_last, 1)
    if filling.kind is Fill.PERMUTATION:
        return rng.permutation(count)
    if filling.kind is Fill.MASK:
        trues = int(filling.high)
        return np.diff(np.arange(count + 1, dtype=np.int64) * trues // count).astype(np.int64)
    if filling.kind is Fill.LOOKUPS:
        return int(filling.low) + _lookups(count, filling, rng)
    return recorded_values(count, filling)


def _lookups(count: int, filling: Filling, rng: np.random.Generator) -> np.ndarray:
    """Rows that are looked up as often as the histogram's shares say, shape [count]."""
    num_rows = int(filling.high) - int(filling.low) + 1
    if not filling.reuse_fractions:
        return draw_uniform(num_rows, count, rng)
    middles = np.array([1.0, *(0.75 * 2.0**k for k in range(1, len(filling.reuse_fractions)))])
    shares = np.array(filling.reuse_fractions)
    mean = float((shares * middles).sum() / shares.sum())
    touched = min(count / mean, float(num_rows))
    by_lookups = shares * middles / (shares * middles).sum()
    reuse = reuse_of_fractions(shares.tolist(), by_lookups.tolist(), touched, touched * mean)
    drawn = draw_from_reuse(rescaled_reuse(reuse, count, num_rows), num_rows, rng)
    return np.resize(drawn, count)


def recorded_values(count: int, filling: Filling) -> np.ndarray:
    """The values of a file beside the trace: 8-byte or 4-byte whole numbers, by the file's size."""
    data = read_bytes(filling.path, what="the recorded values", error=TraceError, usual_bytes=TABLE_BYTES)
    if not count or len(data) not in (4 * count, 8 * count):
        raise TraceError(f"'{filling.path}' holds {len(data)} bytes, not {count} whole numbers")
    return np.frombuffer(data, dtype=np.int32 if len(data) == 4 * count else np.int64).copy()
