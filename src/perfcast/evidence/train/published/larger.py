"""Training the larger nets of the NeuSight study's comparison."""

from __future__ import annotations

from functools import partial
from typing import Any

from perfcast.evidence.train.published.direct import archive_net, direct_task
from perfcast.evidence.train.published.request import TrainingRequest, train_net, write_trained
from perfcast.evidence.train.published.study_rows import PRODUCT_SIZES
from perfcast.published.nets.larger import PART, build_larger


def train_larger(name: str, request: TrainingRequest) -> dict[str, Any]:
    """Train one of ``LARGER`` on batched products.

    Returns:
        The record that lies beside the weights.

    Raises:
        InputError: A table is missing, no row is left, or the folder holds another training's checkpoint.
    """
    table = request.read(PRODUCT_SIZES)
    rows = request.select(table.take(table.operation == "bmm"))
    task, scaling = direct_task(PART, rows, partial(build_larger, name))
    net = train_net(task, request)
    return write_trained(name, request, {PART: net}, {PART: archive_net(net.outcome, scaling)}, [rows])
