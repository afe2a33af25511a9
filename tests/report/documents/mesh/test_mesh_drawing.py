"""A mesh as nested boxes."""

from __future__ import annotations

import numpy as np

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.machine.mesh import DeviceMesh
from perfcast.measure.mesh_discovery.discover import discover_mesh
from perfcast.measure.mesh_discovery.synthetic import make_cluster
from perfcast.report.document import Note
from perfcast.report.documents.mesh.drawing import MOST_DEVICES, groups_figure, mesh_figure, mesh_section
from perfcast.report.figure import Figure, Treemap

MESH = DeviceMesh(load_cluster("dgx-h100:16"), ("dp", "tp"), (4, 4))


def boxes_of(figure: Figure) -> Treemap:
    (boxes,) = figure.series
    assert isinstance(boxes, Treemap)
    return boxes


def test_devices_lie_in_their_servers_and_groups_share_a_colour() -> None:
    boxes = boxes_of(mesh_figure(MESH, ("tp",)))
    assert boxes.values[0] == 16
    assert boxes.labels[1] == "node 0"
    assert boxes.values[1] == 8
    devices = [at for at, label in enumerate(boxes.labels) if label.isdigit()]
    assert [boxes.labels[at] for at in devices] == [str(rank) for rank in range(16)]
    assert len({boxes.colours[at] for at in devices[:4]}) == 1
    assert boxes.colours[devices[3]] != boxes.colours[devices[4]]
    assert boxes.hovers[devices[5]] == "rank 5: dp 1, tp 1\ngroup over tp: devices 4, 5, 6, 7"


def test_a_large_cluster_is_drawn_in_part_and_says_so() -> None:
    mesh = DeviceMesh(load_cluster("dgx-h100:1024"), ("dp",), (1024,))
    boxes = boxes_of(mesh_figure(mesh, ("dp",)))
    assert boxes.values[0] == MOST_DEVICES
    _, note = mesh_section(mesh, ("dp",)).blocks
    assert isinstance(note, Note)
    assert note.text.startswith(f"The first {MOST_DEVICES} of 1024 devices")


def test_discovered_groups_hold_every_rank_once() -> None:
    cluster = make_cluster(24, np.random.default_rng(1))
    draw = np.random.default_rng(2)
    boxes = boxes_of(groups_figure(discover_mesh(lambda pairs: cluster.measure(draw, pairs), 24, seed=1)))
    assert sorted(int(label) for label in boxes.labels if label.isdigit()) == list(range(24))
    assert boxes.values[0] == 24
    inside = dict.fromkeys(boxes.ids, 0.0)
    for name, parent, value in zip(boxes.ids, boxes.parents, boxes.values, strict=True):
        if name:
            inside[parent] += value
    assert all(inside[name] in (0.0, value) for name, value in zip(boxes.ids, boxes.values, strict=True))
