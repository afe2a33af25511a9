"""What is asked of a training step on more and more devices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfcast.core.dtype import AUTO
from perfcast.core.mode import METHODS, Method
from perfcast.core.plan import Plan
from perfcast.core.tuning.trained import FULL, Tuning
from perfcast.core.words import known_word
from perfcast.errors import InputError, PlanError
from perfcast.ranges import BATCH, DEVICES, Range

if TYPE_CHECKING:
    from perfcast.core.training import Training
    from perfcast.cost.model import CostModel
    from perfcast.prediction.model import Model

#: Devices and batch of a point → its plan; a PlanError says why there is none.
PlanRule = Callable[[int, int], Plan]


#: Points of a chart; ten million devices take some 20 s and a gigabyte.
_POINTS = Range(1, 1000, "take fewer points")
_IN_ALL = Range(1, 100_000_000, "take fewer or smaller points")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleRequest:
    """A training step of a model over numbers of devices of several clusters.

    Attributes:
        model: Catalog name, a Hugging Face config.json or its folder, or the sizes themselves.
        clusters: Catalog names or files, without a number of devices.
        devices: Numbers of devices, in any order.
        batch_size: Sequences of a step; with weak scaling on the smallest number of devices.
        rule: None takes ``choose_smallest_plan``.
        training: None takes AdamW in ``dtype`` by ``framework``.
        dtype: Where ``training`` does not say; 'auto' takes what is usual for model and device.
        framework: Whose program trains, where ``training`` does not say; None: that which each plan suggests,
            Megatron where the plans are chosen here.
        compiles: Whether torch.compile fuses what runs, where ``training`` does not say.
        tuning: What of the model trains, where ``training`` does not say.
        recompute_is_open: Whether plans of the rule leave open what is recomputed: then as little as fits.
        method: 'closed_form' or 'simulated'.
    """

    model: Model
    clusters: tuple[str, ...]
    devices: tuple[int, ...]
    batch_size: int
    is_weak: bool = False
    rule: PlanRule | None = None
    recompute_is_open: bool = False
    training: Training | None = None
    dtype: str = AUTO
    framework: str | None = None
    compiles: bool = False
    tuning: Tuning = FULL
    sequence_length: int | None = None
    cost_model: str | CostModel | None = None
    method: Method = "closed_form"

    def __post_init__(self) -> None:
        known_word("method", self.method, METHODS)
        if not self.clusters:
            raise InputError("no cluster to scale on; give --cluster, which may be repeated")
        if not self.devices or min(self.devices) < 1:
            raise InputError("no numbers of devices; give --devices, such as 8,64,512")
        BATCH.check("--batch-size", self.batch_size, PlanError)
        for count in self.devices:
            DEVICES.check("--devices", count, PlanError)
        _POINTS.check("numbers of --devices, on all clusters:", len(self.devices) * len(self.clusters))
        _IN_ALL.check("--devices, all points of the curve together:", sum(self.devices) * len(self.clusters))
