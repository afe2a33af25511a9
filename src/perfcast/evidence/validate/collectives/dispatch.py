"""Measured dispatches of tokens against the forecast, and the constants that explain them.

``python -m perfcast.evidence.validate.collectives.dispatch TABLE`` reads ``moe_dispatch_combine_alltoall``
(DeepEP's kernels by nodes, experts, experts a token, hidden size and tokens), scores the shipped constants,
and those chosen without each die and number of nodes in turn. Chosen are the launch, the pace of the
multiprocessors inside and across nodes, and the share of the network's rate: least squares of log(forecast /
measured) on kernels of 20 multiprocessors (what DeepEP takes where nothing is said), by coordinates on a grid
of ratios. Eight nodes are scored and not chosen on: their network gave half of the rate that DeepEP's README
has for eight nodes.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perfcast.catalog.clusters import load_cluster_entry
from perfcast.core.arrays import Floats
from perfcast.core.cluster import Cluster
from perfcast.core.token_routing import TokenRouting
from perfcast.cost.collective.constants import Constants, load_constants, parse_constants
from perfcast.cost.collective.datasheet import price_collectives
from perfcast.cost.collective.geometry import dispatch_visits
from perfcast.cost.collective.table import collective_table
from perfcast.errors import InputError
from perfcast.evidence.dataset.table import read_frame
from perfcast.evidence.validate.collectives.constants import Path as Name
from perfcast.evidence.validate.collectives.constants import read_content, with_values
from perfcast.units import MICRO

#: The table's devices → cluster and ranks of a node.
_SYSTEMS = {
    "h100_sxm": ("dgx-h100", 8), "h200_sxm": ("dgx-h200", 8), "b200_sxm": ("hgx-b200", 8),
    "b300_sxm": ("hgx-b300", 8),
}  # fmt: skip
_NAMES: tuple[Name, ...] = (
    ("patterns", "dispatch", "launch_seconds", "simple"), ("dispatch", "pace_in_node"),
    ("dispatch", "pace_across_nodes"), ("links", "infiniband", "dispatch_share"),
)  # fmt: skip
_MOST_NODES, _NUM_SMS, _ROUNDS = 4, 20, 4
_FP8_BYTES, _BF16_BYTES = 1 + 4 / 128, 2.0
#: Router of the kernels' own test: experts of at most four nodes (tests/test_internode.py).
_TEST_EXPERTS, _TEST_GROUPS = 256, 4


@dataclass(frozen=True)
class Dispatches:
    """Rows of one system and number of nodes."""

    device: str
    nodes: int
    cluster: Cluster
    message_bytes: Floats
    visits: Floats
    seconds: Floats

    def forecast(self, constants: Constants) -> Floats:
        """Seconds of every row."""
        table = collective_table(
            "dispatch", self.message_bytes, [_span(self.cluster)],
            visits=self.visits,
        )  # fmt: skip
        return price_collectives(self.cluster, table, constants=constants).seconds


def read_dispatches(path: Path) -> list[Dispatches]:
    """Both ways of every row of a table.

    Raises:
        InputError: A file that cannot be read.
    """
    frame = read_frame(path)
    if "dispatch_transmit_us" not in frame.columns:
        raise InputError(f"{path}: no column 'dispatch_transmit_us'")
    groups: dict[tuple[str, int], list[tuple[float, Floats, float]]] = {}
    for row in frame.filter(frame["op_name"] == "normal").iter_rows(named=True):
        device, nodes = row["gpu"], int(float(row["node_num"]))
        if device not in _SYSTEMS or float(row["dispatch_sms"]) != _NUM_SMS:
            continue
        cluster = _cluster(device, nodes)
        count = int(float(row["num_experts"]))
        is_limited = nodes > 1 and count == _TEST_EXPERTS
        routing = TokenRouting(
            count, int(float(row["num_topk"])), nodes if is_limited else 1,
            min(nodes, _TEST_GROUPS) if is_limited else 1,
        )  # fmt: skip
        visits = dispatch_visits(cluster, [routing], [_span(cluster)])[0]
        rows = float(row["num_token"]) * routing.experts_per_token * float(row["hidden_size"])
        for way, each in (("dispatch", _FP8_BYTES), ("combine", _BF16_BYTES)):
            seconds = (float(row[f"{way}_transmit_us"]) + float(row[f"{way}_notify_us"])) * MICRO
            groups.setdefault((device, nodes), []).append((rows * each, visits, seconds))
    return [
        Dispatches(
            device, nodes, _cluster(device, nodes),
            np.array([row[0] for row in rows]), np.stack([row[1] for row in rows]),
            np.array([row[2] for row in rows]),
        )
        for (device, nodes), rows in groups.items()
    ]  # fmt: skip


def _span(cluster: Cluster) -> tuple[int, ...]:
    return cluster.span(tuple(range(cluster.num_devices)))


def _cluster(device: str, nodes: int) -> Cluster:
    name, ranks = _SYSTEMS[device]
    return load_cluster_entry(name).of_size(ranks * nodes)


def choose_constants(parts: Sequence[Dispatches]) -> dict[Name, float]:
    """The values of ``_NAMES`` that explain some measurements best."""
    content = read_content()
    values = {name: _look(content, name) for name in _NAMES}
    used = [part for part in parts if part.nodes <= _MOST_NODES]
    for number in range(_ROUNDS):
        for name in _NAMES:
            steps = np.linspace(-0.5, 0.5, 21) / 2**number
            ratios = np.exp(steps[np.argsort(np.abs(steps), kind="stable")])  # unchanged where nothing tells
            tried = [{**values, name: min(values[name] * ratio, _most(name))} for ratio in ratios.tolist()]
            values = min(tried, key=lambda each: _squares(used, constants_with(each)))
    return values


def constants_with(values: dict[Name, float]) -> Constants:
    """The shipped constants but for these."""
    return parse_constants(with_values(read_content(), list(values), list(values.values())))


def _squares(parts: Sequence[Dispatches], constants: Constants) -> float:
    """Every system and number of nodes counts alike."""
    return sum(float(np.mean(np.log(part.forecast(constants) / part.seconds) ** 2)) for part in parts)


def _most(name: Name) -> float:
    return 0.95 if name[-1] == "dispatch_share" else math.inf


def _look(content: object, name: Name) -> float:
    for key in name:
        assert isinstance(content, dict)
        content = content[key]
    assert isinstance(content, float | int)
    return float(content)


def main(path: str) -> None:
    """Print the scores of the shipped constants and of those chosen without it, and the choice."""
    parts = read_dispatches(Path(path))
    chosen = choose_constants(parts)
    print("chosen on all:", {".".join(name): float(f"{value:.3g}") for name, value in chosen.items()})
    shipped = load_constants()
    dies = {part.device: part.cluster.device for part in parts}
    for part in parts:
        mine = (_die(part.device), part.nodes)
        others = [other for other in parts if (_die(other.device), other.nodes) != mine]
        left_out = constants_with(choose_constants(others)) if others else shipped
        for words, constants in (("shipped", shipped), ("left out", left_out)):
            errors = part.forecast(constants) / part.seconds - 1
            print(
                f"{dies[part.device]:>10} {part.nodes} nodes {words:>9}: {len(errors)} rows, median error "
                f"{np.median(np.abs(errors)):.1%}, signed {np.median(errors):+.1%}"
            )


def _die(device: str) -> str:
    return "GH100" if device in ("h100_sxm", "h200_sxm") else "GB100"


if __name__ == "__main__":
    main(sys.argv[1])
