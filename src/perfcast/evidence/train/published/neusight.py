"""Training NeuSight's nets from the study's measured kernels.

As published: AdamW, batches of 16 to 128, loss mean |t − p| / (t + p), a random split of rows (not of
devices) into 80 % training and 20 % validation, the weights of the epoch with the least validation error.

The published recipe of the linear net (learning rate 5e-3 from the first step, no warm-up, no limit on
gradients) kills about half of its nets within two epochs. Its first steps throw the outputs to hundreds,
where both sigmoids of the utilization σ(o₃) − σ(o₁)/W are 0 or 1 to the last bit. Then either a kernel of one
wave has utilization 1 − 1 = 0, or any kernel 0 − 0, the prediction is bound / 0 = ∞, the loss ∞ / ∞ and every
weight NaN; or the utilization is so small that its gradient overflows; or it is 1 everywhere and no gradient
is left. One row in six is of one wave. With seeds 0 to 7: 0, 2 and 6 became NaN (after 8, 85 and 142 steps of
epochs 2, 1 and 2), 1 saturated, 3, 4, 5 and 7 lived. The recipe is kept: ``train`` starts again from other
weights, and says so.

One deviation: the study's split and initial weights came from an unseeded generator.
AMD: of the matrix products only what was published as test shapes is left, and it is trained on.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.evidence.train.published.request import (
    TrainedNet,
    TrainingRequest,
    train_net,
    write_trained,
)
from perfcast.evidence.train.published.study_rows import (
    PRODUCT_SIZES,
    VECTOR_SIZES,
    StudyRows,
)
from perfcast.evidence.train.task import Outcome, Recipe, Task, symmetric_relative_error
from perfcast.published.kernels.figures import collect_study_figures
from perfcast.published.nets.archive import Archive
from perfcast.published.nets.mlp import build_mlp
from perfcast.published.neusight.nets import (
    NETS,
    NUM_INPUTS,
    NUM_LAYERS,
    NUM_OUTPUTS,
    PRODUCT_NETS,
    WHOLE_ROW_NETS,
    WIDTH,
)
from perfcast.published.neusight.tiles import (
    TileTable,
    elementwise_tiles,
    parse_product_tiles,
    product_features,
    vector_features,
)
from perfcast.published.neusight.waves import Waves, product_waves, vector_waves

if TYPE_CHECKING:
    from torch import Tensor

PROTOCOL = (
    "random 80/20 split of rows; AdamW; batch and learning rate by net as in the study; "
    "least validation error wins"
)


def train_neusight(request: TrainingRequest) -> dict[str, Any]:
    """Train all five nets.

    Returns:
        The record that lies beside the weights.

    Raises:
        InputError: A table is missing, no row is left, or the folder holds another training's checkpoint.
    """
    products, vectors = (request.select(request.read(sizes)) for sizes in (PRODUCT_SIZES, VECTOR_SIZES))
    nets: dict[str, TrainedNet] = {}
    archives: dict[str, Archive] = {}
    for name in NETS:
        rows = training_rows(products if name in PRODUCT_NETS else vectors, name)
        nets[name] = train_net(build_task(name, rows, request.vendor), request)
        archives[name] = _archive(nets[name].outcome, tile_table(name, rows))
    return write_trained("neusight", request, nets, archives, [products, vectors], protocol=PROTOCOL)


def training_rows(rows: StudyRows, name: str) -> StudyRows:
    """The rows that train a net: its kernels, and of row kernels only the large ones."""
    net = NETS[name]
    keep = np.isin(rows.operation.astype(str), net.operations)
    if name not in PRODUCT_NETS:
        keep &= (rows.shape[:, 0] > net.least_rows) & (rows.shape[:, 1] > net.least_row_length)
    return rows.take(keep)


def measured_tiles(name: str, rows: StudyRows) -> Floats:
    """Tiles that the measured kernels used: [n, 2] for products, [n, 1] for row kernels."""
    if name in PRODUCT_NETS:
        return parse_product_tiles(rows.kernel_name)
    if name in WHOLE_ROW_NETS:
        return rows.shape[:, 1:]
    return elementwise_tiles(rows.shape.prod(axis=1), rows.num_blocks)[:, None]


def measured_waves(name: str, rows: StudyRows, tiles: Floats) -> Waves:
    """The rows as net ``name`` sees them with these tiles."""
    figures = collect_study_figures(rows.devices, rows.device_index)
    if name in PRODUCT_NETS:
        return product_waves(rows.shape, tiles, figures)
    return vector_waves(rows.shape, rows.row_work(), tiles[:, 0], figures)


def tile_table(name: str, rows: StudyRows) -> TileTable:
    """The table in which tiles of kernels never run are looked up; empty where a tile is a whole row."""
    if name in WHOLE_ROW_NETS:
        rows = rows.take(np.zeros(0, dtype=np.int64))
    figures = collect_study_figures(rows.devices, rows.device_index)
    if name in PRODUCT_NETS:
        features = product_features(rows.shape, figures)
    else:
        features = vector_features(rows.shape, rows.row_work(), figures)
    return TileTable(rows.operation.astype(str), features, measured_tiles(name, rows))


def build_task(name: str, rows: StudyRows, vendor: str) -> Task:
    """What net ``name`` is to learn from measured rows."""
    waves = measured_waves(name, rows, measured_tiles(name, rows))
    net = NETS[name]
    return Task(
        name=name,
        build=partial(build_mlp, NUM_INPUTS, NUM_OUTPUTS, WIDTH, NUM_LAYERS),
        inputs=waves.inputs.astype(np.float32),
        context=np.stack([waves.bound_seconds, waves.num_waves], axis=1).astype(np.float32),
        seconds=rows.seconds.astype(np.float32),
        answer=_latency,
        loss=symmetric_relative_error,
        recipe=Recipe(net.learning_rate[vendor], net.batch_size),
    )


def _latency(outputs: Tensor, context: Tensor) -> Tensor:
    """Bound / utilization; see ``neusight_waves``."""
    bound_seconds, num_waves = context[:, 0], context[:, 1]
    utilization = outputs[:, 2].sigmoid() - outputs[:, 0].sigmoid() / num_waves
    return bound_seconds / utilization


def _archive(outcome: Outcome, table: TileTable) -> Archive:
    arrays: dict[str, Any] = {f"net.{name}": value for name, value in outcome.weights.items()}
    arrays |= {
        "tile.operations": table.operations.astype(np.str_),
        "tile.features": table.features.astype(np.float32),
        "tile.tiles": table.tiles.astype(np.float32),
    }
    return Archive(arrays, {})
