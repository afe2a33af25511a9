"""Measured dispatches of tokens against the forecast, and the constants that explain them.

``python -m perfcast.evidence.validate.collectives.dispatch TABLE`` reads ``moe_dispatch_combine_alltoall``
(DeepEP's kernels by nodes, experts, experts a token, hidden size and tokens, TensorRT-LLM's one-sided kernels
in a rack), scores the shipped constants, and those chosen without each die and number of ranks in turn.
Chosen are the launch, the pace of the multiprocessors in a node, across nodes and in a rack, and the share
of the network's rate: least squares of log(forecast / measured) on kernels of 20 multiprocessors (what DeepEP
takes where nothing is said), by coordinates on a grid of ratios. Eight nodes are scored and not chosen on:
their network gave half of the rate that DeepEP's README has for eight nodes.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from perfcast.catalogs.clusters import load_cluster_entry
from perfcast.core.arrays import Floats
from perfcast.core.machine.cluster import Cluster
from perfcast.core.model.token_routing import TokenRouting
from perfcast.cost.collective.constants import Constants, load_constants, parse_constants
from perfcast.cost.collective.datasheet import price_collectives
from perfcast.cost.collective.geometry import dispatch_visits
from perfcast.cost.collective.table import collective_table
from perfcast.errors import InputError
from perfcast.evidence.dataset.table import read_frame
from perfcast.evidence.validate.collectives.constants import Path as Name
from perfcast.evidence.validate.collectives.constants import read_content, with_values
from perfcast.printer.streams import say
from perfcast.units import MICRO, MILLI

#: The table's devices → cluster.
_SYSTEMS = {
    "h100_sxm": "dgx-h100", "h200_sxm": "dgx-h200", "b200_sxm": "hgx-b200", "b300_sxm": "hgx-b300",
    "gb200": "gb200-nvl72",
}  # fmt: skip
_SERVER, _RACK, _RACK_KERNELS = 8, "gb200", "NVLinkOneSided"
_NAMES: tuple[Name, ...] = (
    ("patterns", "dispatch", "launch_seconds", "simple"), ("dispatch", "pace_in_node"),
    ("dispatch", "pace_across_nodes"), ("dispatch", "pace_in_rack"),
    ("links", "infiniband", "dispatch_share"),
)  # fmt: skip
_MOST_NODES, _NUM_SMS, _ROUNDS = 4, 20, 4
_FP8_BYTES, _BF16_BYTES, _NVFP4_BYTES = 1 + 4 / 128, 2.0, 0.5 + 1 / 16
#: Router of the kernels' own test: experts of at most four nodes (tests/test_internode.py).
_TEST_EXPERTS, _TEST_GROUPS = 256, 4


@dataclass(frozen=True)
class Dispatches:
    """Rows of one system and group.

    Attributes:
        ranks: Of the group.
        nodes: Over which it is spread.
    """

    device: str
    ranks: int
    nodes: int
    message_bytes: Floats
    visits: Floats
    seconds: Floats

    def forecast(self, constants: Constants) -> Floats:
        """Seconds of every row."""
        cluster, span = _place(self.device, self.ranks, self.nodes)
        table = collective_table("dispatch", self.message_bytes, [span], visits=self.visits)
        return price_collectives(cluster, table, constants=constants).seconds


_Row = dict[str, Any]
_Group = tuple[str, int, int]


def read_dispatches(path: Path) -> list[Dispatches]:
    """Both ways of every row of a table.

    Raises:
        InputError: A file that cannot be read.
    """
    frame = read_frame(path)
    if "dispatch_transmit_us" not in frame.columns:
        raise InputError(f"{path}: no column 'dispatch_transmit_us'")
    groups: dict[_Group, list[tuple[float, Floats, float]]] = {}
    for row in frame.iter_rows(named=True):
        for group, message_bytes, visits, seconds in _figures(row):
            groups.setdefault(group, []).append((message_bytes, visits, seconds))
    return [
        Dispatches(
            *group, np.array([row[0] for row in rows]), np.stack([row[1] for row in rows]),
            np.array([row[2] for row in rows]),
        )
        for group, rows in groups.items()
    ]  # fmt: skip


def _figures(row: _Row) -> Iterator[tuple[_Group, float, Floats, float]]:
    """Group, message bytes, visits and seconds of each way of a row; none of rows that are not used."""
    if row["gpu"] == _RACK and row["kernel_source"] == _RACK_KERNELS:
        group = (_RACK, int(float(row["moe_ep_size"])), 1)
        way = str(row["op_name"]).removeprefix("alltoall_")
        if group[1] >= _SERVER and way in ("dispatch", "combine"):
            each = _NVFP4_BYTES if way == "dispatch" else _BF16_BYTES
            routing = TokenRouting(int(float(row["num_experts"])), int(float(row["topk"])))
            yield _figure(group, routing, row, "num_tokens", each, float(row["latency"]) * MILLI)
    elif (
        row["op_name"] == "normal"
        and row["gpu"] in _SYSTEMS.keys() - {_RACK}
        and float(row["dispatch_sms"]) == _NUM_SMS
    ):
        nodes, count = int(float(row["node_num"])), int(float(row["num_experts"]))
        is_limited = nodes > 1 and count == _TEST_EXPERTS
        chosen = min(nodes, _TEST_GROUPS) if is_limited else 1
        routing = TokenRouting(count, int(float(row["num_topk"])), nodes if is_limited else 1, chosen)
        for way, each in (("dispatch", _FP8_BYTES), ("combine", _BF16_BYTES)):
            seconds = (float(row[f"{way}_transmit_us"]) + float(row[f"{way}_notify_us"])) * MICRO
            group = (row["gpu"], _SERVER * nodes, nodes)
            yield _figure(group, routing, row, "num_token", each, seconds)


def _figure(
    group: _Group, routing: TokenRouting, row: _Row, tokens: str, each: float, seconds: float
) -> tuple[_Group, float, Floats, float]:
    cluster, span = _place(*group)
    visits = dispatch_visits(cluster, [routing], [span])[0]
    rows = float(row[tokens]) * routing.experts_per_token * float(row["hidden_size"])
    return group, rows * each, visits, seconds


@cache
def _place(device: str, ranks: int, nodes: int) -> tuple[Cluster, tuple[int, ...]]:
    """The cluster of a group, and the group's span."""
    entry = load_cluster_entry(_SYSTEMS[device])
    cluster = entry.of_size(entry.levels[0].size * nodes)
    return cluster, (ranks // nodes, *(nodes if at == 0 else 1 for at in range(len(cluster.levels) - 1)))


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
    figures = {".".join(name): float(f"{value:.3g}") for name, value in chosen.items()}
    say(f"chosen on all: {figures}")
    shipped = load_constants()
    for part in parts:
        mine = _kind(part)
        others = [other for other in parts if _kind(other) != mine]
        left_out = constants_with(choose_constants(others)) if others else shipped
        for words, constants in (("shipped", shipped), ("left out", left_out)):
            errors = part.forecast(constants) / part.seconds - 1
            say(
                f"{part.device:>8} {part.ranks} ranks of {part.nodes} nodes {words:>8}: {len(errors)} rows, "
                f"median error {np.median(np.abs(errors)):.1%}, signed {np.median(errors):+.1%}"
            )


def _kind(part: Dispatches) -> tuple[str, int, int]:
    """What is left out together: a die's groups of one size."""
    return "GH100" if part.device in ("h100_sxm", "h200_sxm") else "GB100", part.ranks, part.nodes


if __name__ == "__main__":
    main(sys.argv[1])
