"""NeuSight (Lee, Phanishayee, Mahajan, ASPLOS 2025) as a predictor of fp32 kernels.

``neusight_waves`` holds the formula, ``neusight_tiles`` the look-up of tiles, ``neusight_nets`` the five
nets, ``neusight_training`` how they are trained, ``neusight_graph`` the prices of whole graphs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perfcast.core.arrays import Flags, Floats, Integers, Objects
from perfcast.core.kernel import KernelFamily, KernelTable
from perfcast.core.machine.hardware import Device
from perfcast.published.comparison import print_part
from perfcast.published.kernels.figures import StudyFigures, collect_study_figures
from perfcast.published.nets.outputs import mlp_outputs
from perfcast.published.nets.store import read_part, read_record
from perfcast.published.neusight.nets import NETS, PRODUCT_NETS, WHOLE_ROW_NETS, net_of, row_work
from perfcast.published.neusight.tiles import TileTable, product_features, vector_features
from perfcast.published.neusight.waves import product_waves, vector_waves


@dataclass(frozen=True, eq=False)
class Calls:
    """n kernels of one net.

    Attributes:
        operations: The study's names, shape [n].
        shape: batch, m, k, n of products or rows and their length; [n, sizes].
        work: Bytes and flops per element of the output, [n, 2]; not looked at for products.
    """

    operations: Objects
    shape: Floats
    work: Floats

    def take(self, index: Integers | Flags) -> Calls:
        """The rows that ``index`` selects."""
        return Calls(self.operations[index], self.shape[index], self.work[index])


@dataclass(frozen=True, eq=False)
class TrainedNet:
    """One net with its tiles.

    Attributes:
        ratio_low, ratio_high: 5th and 95th percentile of measured / predicted on validation rows.
    """

    name: str
    weights: Mapping[str, NDArray[np.float32]]
    tiles: TileTable
    ratio_low: float
    ratio_high: float

    def predict(self, calls: Calls, figures: StudyFigures, tiles: Floats | None = None) -> Floats:
        """Seconds, shape [n]; NaN where no tile is known.

        Args:
            tiles: Tiles that the kernels are known to use, [n, 2] for products, [n, 1] for rows; looked up
                when None.
        """
        if tiles is None:
            tiles = self.look_up(calls, figures)
        if self.name in PRODUCT_NETS:
            waves = product_waves(calls.shape, tiles, figures)
        else:
            waves = vector_waves(calls.shape, calls.work, tiles[:, 0], figures)
        return waves.seconds(mlp_outputs(self.weights, waves.inputs))

    def look_up(self, calls: Calls, figures: StudyFigures) -> Floats:
        """Tiles of the nearest training rows; a whole row for softmax and layer norm."""
        if self.name in WHOLE_ROW_NETS:
            return calls.shape[:, 1:]
        if self.name in PRODUCT_NETS:
            return self.tiles.look_up(calls.operations, product_features(calls.shape, figures))
        return self.tiles.look_up(calls.operations, vector_features(calls.shape, calls.work, figures))


@dataclass(frozen=True, eq=False)
class NeuSight:
    """The five nets, for the devices of the vendor whose kernels they learned from."""

    nets: Mapping[str, TrainedNet]
    vendor: str
    name: str = "neusight"

    def predict(self, kernels: KernelTable, devices: Sequence[Device], device_index: Integers) -> Floats:
        """Seconds, shape [n]; NaN for kernels that are not fp32, that no net prices, or of another vendor."""
        return self.predict_tiled(kernels, devices, device_index, None)

    def predict_tiled(
        self,
        kernels: KernelTable,
        devices: Sequence[Device],
        device_index: Integers,
        tiles: Floats | None,
    ) -> Floats:
        """Like ``predict`` with known tiles [n, 2] (the first column alone for rows), if they are given."""
        seconds = np.full(len(kernels), np.nan)
        if kernels.family not in (KernelFamily.PRODUCT, KernelFamily.ROWS) or not len(kernels):
            return seconds
        calls = calls_of(kernels)
        names = {str(operation): net_of(str(operation)) for operation in set(calls.operations)}
        nets = np.array([names[operation] or "" for operation in calls.operations])
        figures = collect_study_figures(devices, device_index)
        is_known = np.array([device.vendor == self.vendor for device in devices], dtype=bool)[device_index]
        is_known &= kernels.word("dtype") == "fp32"
        for name, net in self.nets.items():
            index = np.flatnonzero((nets == name) & is_known)
            if len(index):
                known = None if tiles is None else tiles[index]
                seconds[index] = net.predict(calls.take(index), figures.take(index), known)
        return seconds


def calls_of(kernels: KernelTable) -> Calls:
    """Products and row kernels by the study's names and sizes."""
    operations = kernels.word("operation").astype(object)
    if kernels.family is KernelFamily.PRODUCT:
        is_batched = (operations == "bmm") | (kernels.size("batch") > 1)
        shape = np.stack([kernels.size(name) for name in ("batch", "m", "k", "n")], axis=1)
        return Calls(np.where(is_batched, "bmm", "linear").astype(object), shape, np.zeros((len(kernels), 2)))
    shape = np.stack([kernels.size("num_rows"), kernels.size("row_length")], axis=1)
    flops = {str(operation): row_work(str(operation))[1] for operation in set(operations)}
    work = np.stack(
        [
            (kernels.size("read_bytes") + kernels.size("written_bytes")) / shape.prod(axis=1),
            np.array([flops[operation] for operation in operations]),
        ],
        axis=1,
    )
    return Calls(operations, shape, work)


def load_neusight(folder: Path) -> NeuSight:
    """The predictor that ``perfcast train neusight`` left in ``folder``.

    Raises:
        InputError: It is not trained, or a file is broken.
    """
    record = read_record(folder, "neusight")
    nets = {name: _load_net(folder, name, record["nets"][name]) for name in NETS}
    return NeuSight(nets, record["vendor"])


def _load_net(folder: Path, name: str, record: Mapping[str, float]) -> TrainedNet:
    arrays = read_part(folder, name).arrays
    return TrainedNet(
        name=name,
        weights={k.removeprefix("net."): v for k, v in arrays.items() if k.startswith("net.")},
        tiles=TileTable(
            arrays["tile.operations"],
            arrays["tile.features"].astype(np.float64),
            arrays["tile.tiles"].astype(np.float64),
        ),
        ratio_low=record["ratio_low"],
        ratio_high=record["ratio_high"],
    )


if __name__ == "__main__":
    print_part("neusight.predictor", "neusight")
