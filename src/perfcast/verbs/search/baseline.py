"""Published searchers as ``perfcast search --cost-model`` names them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfcast.core.machine.cluster import Cluster
    from perfcast.core.model.transformer import Transformer
    from perfcast.core.training import Training
    from perfcast.searches.report.baseline import Baseline, Scored

SEARCHER_3D = "searcher-3d"


def find_baseline(cost_model: str | None) -> Baseline | None:
    """The searcher of a name; None where it names something that prices operations."""
    if cost_model is None or cost_model.replace("_", "-") != SEARCHER_3D:
        return None
    from perfcast.searches.report.baseline import Baseline

    return Baseline(SEARCHER_3D, order_of_searcher_3d)


def order_of_searcher_3d(
    model: Transformer, cluster: Cluster, training: Training, global_batch_size: int, sequence_length: int
) -> Sequence[Scored]:
    """All its plans by their time; equal ones in its own order.

    Raises:
        InputError: None has a finite time.
    """
    from perfcast.prediction import resolve_device
    from perfcast.published.searcher_3d.job import describe_cluster, describe_model
    from perfcast.published.searcher_3d.search import search
    from perfcast.units import MILLI

    figures = describe_cluster(cluster, resolve_device(cluster.device), training.dtype)
    job = describe_model(model, global_batch_size, sequence_length)
    times = sorted(search(figures, job)[1], key=lambda time: time.total_milliseconds)
    return [(time.plan, time.total_milliseconds * MILLI) for time in times]
