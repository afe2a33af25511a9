"""What a search for the largest size that fits a device found."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Probe:
    """One size that was tried: what its tensors hold at once, what it needs in all, whether that fits."""

    size: int
    tensor_bytes: int
    needed_bytes: int
    fits: bool


@dataclass(frozen=True)
class Largest:
    """The largest size that fits.

    Attributes:
        quantity: What was varied: 'batch_size' (of one forward) or 'sequence_length'.
        value: The answer; None where not even the smallest size fits.
        is_complete: Whether the next larger size is known not to fit; an interrupted search leaves it open.
        limit: Why the model takes no larger size, where that ends the search and not the memory; else ''.
        probes: Every size tried, in order; each was captured.
    """

    quantity: str
    value: int | None
    is_complete: bool
    limit: str
    probes: tuple[Probe, ...] = field(repr=False)
    capacity_bytes: int
