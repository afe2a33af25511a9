"""NeuSight's forecast of training on up to 3,840 nodes, and ours beside it.

Printed (Lee, Phanishayee, Mahajan, ASPLOS 2025; forecasts, never measured): nodes of eight H100, a fat tree
of 100 Gb/s InfiniBand, tensor parallelism within a node, pipeline parallelism between nodes. Model, precision
and batch of these figures are not known here, so that they cannot be computed anew. What they are composed of
can be read off them: each differs from that of one node by a whole number of steps of 107.28 ms,

    step(nodes) = step(1) + hops(nodes) · hop        hops = 0, 3, 98, 99, 103 for 1, 4, 384, 768, 3,840 nodes

so compute does not change with the nodes (one micro-batch, whose stages follow one another) and all else is
messages of one size over one link, of which four stages in a row have three. 98 is not 383: nothing has a
layer for each of 384 nodes, and 384, 768 and 3,840 are 4, 8 and 40 times the 96 layers of GPT-3, whose 96
stages have 95 hops; replicas would add the 3, 4 and 8 others.

Ours is of GPT-3 175B on those nodes: tensor parallel 8, as many stages as nodes but at most one for each
layer, replicas on the rest, one sequence of 2,048 tokens for each, no optimizer. ``WHY`` says what sets the
two apart. ``python -m perfcast.published.neusight.multi_node`` prints them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perfcast.catalogs.clusters import load_cluster_entry
from perfcast.core.machine.cluster import Cluster
from perfcast.core.plan import Plan
from perfcast.core.training import Training, TrainingDType
from perfcast.prediction.step.predict import predict_plan
from perfcast.published.comparison import Comparison, Figure, print_comparison, unread
from perfcast.published.kernels.study import PAPER
from perfcast.units import GIGA, MILLI

#: Nodes → printed seconds.
PRINTED_SECONDS: Mapping[int, float] = {
    1: 1514.9 * MILLI,
    4: 1836.7 * MILLI,
    384: 12028.3 * MILLI,
    768: 12135.5 * MILLI,
    3840: 12564.6 * MILLI,
}
#: Printed with one decimal of a millisecond.
ROUNDING_SECONDS = 0.05 * MILLI
NODE_SIZE = 8
INFINIBAND_BITS_PER_SECOND = 100 * GIGA
#: Of the smallest distance; so that a step is far above the rounding.
_MOST_PARTS = 8
MODEL, NUM_LAYERS, SEQUENCE_LENGTH = "gpt3-175b", 96, 2048

PROTOCOL = (
    "Several nodes: printed forecasts of a model that is not stated, beside ours of GPT-3 175B in fp32, one "
    "sequence of 2,048 tokens a replica; neither was measured, and neither is an error of the other."
)
WHY: Mapping[str, str] = {
    "one node": "theirs adds kernels and all-reduces up, an all-reduce of b bytes at 7 · b / link instead of "
    "a ring's 7/4; model, precision and batch are theirs and unknown, ours is one sequence of GPT-3 175B",
    "a hop": "theirs counts two messages of a hop forwards and one backwards, at 72 % of the link; ours "
    "sends one each way, and each of a node's eight devices has a port of its own",
    "few nodes": "both leave all stages but one idle, since there is one micro-batch",
    "replicas": "theirs grows by whole hops with the nodes; ours reduces the gradients of a stage over the "
    "replicas once, 2(n - 1)/n of their bytes, which hardly grows with n and hides behind nothing where each "
    "stage has one layer",
}


@dataclass(frozen=True, slots=True)
class Hops:
    """What the printed figures are composed of."""

    hop_seconds: float
    hops: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class MultiNodeForecast:
    """One row: printed seconds, ours, and what ours is made of."""

    nodes: int
    plan: Plan
    printed_seconds: float
    hops: int
    seconds: float
    seconds_by_cause: Mapping[str, float]


def decompose(printed: Mapping[int, float] = PRINTED_SECONDS) -> Hops:
    """The largest hop of which every figure's distance to one node is a whole multiple, within the rounding.

    Candidates are whole parts of the smallest distance.

    Raises:
        ValueError: There is none.
    """
    base = printed[1]
    distances = {nodes: seconds - base for nodes, seconds in printed.items()}
    smallest = min(distance for distance in distances.values() if distance > 0)
    largest = max(distances.values())
    for parts in range(1, _MOST_PARTS + 1):
        count = round(largest / (smallest / parts))
        hop = largest / count
        if all(abs(d - round(d / hop) * hop) <= 2 * ROUNDING_SECONDS for d in distances.values()):
            return Hops(hop, {nodes: round(d / hop) for nodes, d in distances.items()})
    raise ValueError("the printed figures have no common step")


def study_plan(nodes: int) -> Plan:
    """Tensor parallelism inside nodes; as many stages as nodes, at most one for each layer."""
    stages = min(nodes, NUM_LAYERS)
    return Plan(tensor_parallel=NODE_SIZE, pipeline_parallel=stages, data_parallel=nodes // stages)


def study_cluster(nodes: int) -> Cluster:
    """Nodes of eight H100 on 100 Gb/s for each device."""
    cluster = load_cluster_entry("dgx-h100").of_size(nodes * NODE_SIZE)
    link = replace(cluster.levels[-1].link, bytes_per_second=INFINIBAND_BITS_PER_SECOND / 8)
    return replace(cluster, levels=(*cluster.levels[:-1], replace(cluster.levels[-1], link=link)))


def forecast_multi_node(
    nodes: Sequence[int] = tuple(PRINTED_SECONDS), dtype: TrainingDType = "fp32", cost_model: str = "learned"
) -> tuple[MultiNodeForecast, ...]:
    """Ours beside the printed ones."""
    found = decompose()
    training = Training(dtype=dtype, optimizer="none", framework="megatron_local", attention="math")
    rows = []
    for count in nodes:
        plan = study_plan(count)
        forecast = predict_plan(
            MODEL, study_cluster(count), plan, training=training, sequence_length=SEQUENCE_LENGTH,
            cost_model=cost_model, recommendations=False, memory=False,
        )  # fmt: skip
        causes = forecast.time.seconds_by_cause
        rows.append(
            MultiNodeForecast(
                count, plan, PRINTED_SECONDS[count], found.hops[count], forecast.step_seconds, causes
            )
        )
    return tuple(rows)


def multi_node_figures() -> tuple[Figure, ...]:
    """A row for each printed number of nodes, with what both are composed of."""
    hop = decompose().hop_seconds / MILLI
    figures = []
    for row in forecast_multi_node():
        plan = f"tp{row.plan.tensor_parallel} pp{row.plan.pipeline_parallel} dp{row.plan.data_parallel}"
        causes = ", ".join(f"{name} {seconds / MILLI:.0f}" for name, seconds in row.seconds_by_cause.items())
        figures.append(
            Figure(
                what=f"{row.nodes:,} node{'s' if row.nodes > 1 else ''} of eight H100, {plan}",
                published=row.printed_seconds / MILLI, ours=row.seconds / MILLI, unit="ms", digits=6,
                where="forecasts on several nodes",
                note=f"printed: one node and {row.hops} hops of {hop:.2f} ms; ours, in ms: {causes}",
            )
        )  # fmt: skip
    return tuple(figures)


def compare(data: Path | None = None) -> Comparison:
    """The printed forecasts beside ours."""
    return Comparison(
        system="neusight.multi_node",
        paper=PAPER,
        protocol=PROTOCOL,
        figures=multi_node_figures(),
        notes=(*(f"{subject}: {why}" for subject, why in WHY.items()), *unread(data)),
    )


if __name__ == "__main__":
    print_comparison(compare)
