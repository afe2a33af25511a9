"""What is asked of the memory of a model, on one device or under a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfcast.core.dtype import AUTO
from perfcast.core.mode import MODES, Mode
from perfcast.core.plan import Plan
from perfcast.core.words import known_word

if TYPE_CHECKING:
    from perfcast.core.machine.cluster import Cluster
    from perfcast.core.machine.hardware import Device
    from perfcast.core.training import Training
    from perfcast.prediction.model import Model
    from perfcast.prediction.request.one_device import Request


@dataclass(frozen=True, kw_only=True)
class PlanMemoryRequest:
    """The memory of one step of a transformer under a plan, on devices whose links only time what would help.

    Attributes:
        model: Catalog name, a Hugging Face config.json or its folder, or the sizes themselves.
        device: Catalog name, ``FILE.toml``, or a Device.
        mode: 'train', 'prefill' or 'decode' (the sequence is then what the cache holds).
        recompute_is_open: Whether the plan leaves open what is recomputed: then as little as fits, unless the
            model is captured.
        training: Precision, optimizer and framework; None: AdamW in ``dtype`` by the framework that
            ``default_framework`` names.
        dtype: Where ``training`` does not say; of inference, of weights; 'auto' takes what is usual for
            model, mode and device.
        kv_cache_dtype: Of keys and values; None or 'auto': what the framework keeps beside ``dtype``.
        framework: Whose program runs, where ``training`` does not say; None: what is usual for model, mode
            and plan.
        compiles: Whether torch.compile fuses what runs, where ``training`` does not say.
        sequence_length: None takes the model's own.
        fit: Whether to look for changes that make it fit, and what they cost.
        cluster: On which that is timed; None: the catalog's cluster of the device.
        defaults: Precision and sequence that were chosen before, in words.
    """

    model: Model
    device: str | Device
    plan: Plan
    recompute_is_open: bool = False
    mode: Mode = "train"
    training: Training | None = None
    dtype: str = AUTO
    kv_cache_dtype: str | None = None
    framework: str | None = None
    compiles: bool = False
    sequence_length: int | None = None
    fit: bool = False
    cluster: str | Cluster | None = None
    defaults: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        known_word("mode", self.mode, MODES)


@dataclass(frozen=True, kw_only=True)
class MemoryRequest:
    """The memory of one captured step on one device, or the largest size that fits it.

    Attributes:
        workload: What the device runs.
        device: Catalog name, ``FILE.toml``, 'cpu' (which needs no calibration here), or a Device.
        allocator: Settings of PyTorch's caching allocator, as ``PYTORCH_CUDA_ALLOC_CONF`` writes them.
    """

    workload: Request
    device: str | Device
    allocator: str = ""
