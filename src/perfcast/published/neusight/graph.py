"""NeuSight as a cost model: prices of the operations of a captured graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perfcast.core.machine.hardware import Device
from perfcast.published.comparison import print_part
from perfcast.published.kernels.figures import collect_study_figures
from perfcast.published.kernels.graph import PricedCalls, StudyCost
from perfcast.published.neusight.nets import net_of
from perfcast.published.neusight.predictor import Calls, NeuSight, load_neusight
from perfcast.published.neusight.rules import NetKernel


@dataclass(frozen=True, eq=False)
class NeuSightCalls:
    """The five nets as a pricer of calls; a fused kernel keeps its own flops."""

    predictor: NeuSight
    name: str = "neusight"

    @property
    def vendor(self) -> str:
        """Whose devices it learned from."""
        return self.predictor.vendor

    def price(self, calls: Sequence[NetKernel], device: Device) -> PricedCalls:
        """Seconds of each kernel, and what 5 % and 95 % of validation rows took against their prediction."""
        found = PricedCalls(*np.full((3, len(calls)), np.nan))
        nets = np.array([net_of(call.operation) or "" for call in calls])
        for name, net in self.predictor.nets.items():
            index = np.flatnonzero(nets == name)
            if len(index):
                chosen = [calls[i] for i in index.tolist()]
                figures = collect_study_figures((device,), np.zeros(len(index), dtype=np.int64))
                seconds = net.predict(_table(chosen), figures)
                found.seconds[index] = seconds
                found.low[index] = seconds * min(net.ratio_low, 1.0)
                found.high[index] = seconds * max(net.ratio_high, 1.0)
        return found


def _table(calls: Sequence[NetKernel]) -> Calls:
    return Calls(
        np.array([call.operation for call in calls], dtype=object),
        np.array([call.shape for call in calls], dtype=np.float64),
        np.array([call.work for call in calls], dtype=np.float64),
    )


def load_neusight_cost(folder: Path) -> StudyCost:
    """The cost model on the predictor in ``folder``.

    Raises:
        InputError: It is not trained, or a file is broken.
    """
    return StudyCost(NeuSightCalls(load_neusight(folder)))


if __name__ == "__main__":
    print_part("neusight.graph", "neusight")
