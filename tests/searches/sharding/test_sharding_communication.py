import numpy as np
import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.cost.collective.datasheet import price_collective
from perfcast.searches.sharding.communication import Curve, cluster_communication


@pytest.mark.parametrize("name", ["dgx-a100:8", "dgx-h100:32"])
def test_collectives_are_those_of_the_datasheet(name):
    cluster = load_cluster(name)
    communication = cluster_communication(cluster)
    ranks = tuple(range(cluster.num_devices))
    for size in (3e4, 7e6, 5e8):
        direct = price_collective(cluster, "all_to_all", size, ranks)
        assert communication.all_to_all_seconds(np.array([size])) == pytest.approx([direct], rel=0.03)
        direct = price_collective(cluster, "all_reduce", size, ranks)
        assert communication.all_reduce_seconds(np.array([size])) == pytest.approx([direct], rel=0.05)


def test_a_larger_message_never_takes_less():
    sizes = np.geomspace(1, 1e10, 500)
    assert (np.diff(cluster_communication(load_cluster("dgx-h100:16")).all_to_all_seconds(sizes)) >= 0).all()


def test_beyond_the_last_size_a_curve_goes_on_at_its_pace():
    curve = Curve(np.array([0.0, 100.0]), np.array([1.0, 2.0]))
    assert curve.at(np.array([50.0, 200.0])) == pytest.approx([1.5, 4.0])
