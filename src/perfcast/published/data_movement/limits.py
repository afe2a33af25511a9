"""The best plan of a training run of some compute, and what its steps wait for.

The question of "Data movement limits to frontier model training" (Erdil and Schneider-Joseph, Epoch AI,
arXiv 2411.01137), on the linear layers of ``data_movement``. The paper's search over plans is not published,
so this one is ours. A run of C flops has N = √(C / 6k) active parameters and k·N tokens, a batch that grows
as a power of C, a depth that grows as a power of N, and a fixed time; that leaves each step so many seconds.
A block is a layer d × rd and one back. A plan has degrees of tensor (t_in · t_out, with t_out ≈ r t_in, which
makes the shards square), pipeline p, data D and expert parallelism e, and m microbatches; it uses
t_in·t_out·p·D·e devices. Of the plans whose steps end in time, the one of the highest utilization is taken:

    slot  = both layers (``data_movement``) · blocks/p        a microbatch at a stage
    delay = (4 launches + 2 (log₂ t_in + log₂ t_out + 2 log₂ e) hops) · blocks/p
    fill  = p (slot + delay) / slot                           slots until a first microbatch is through
    step  = slot · (max(m, fill) + (min(m, fill) − 1)/chunks) + gradients of a stage + 2 log₂ D hops
    utilization = 6 N · batch / (devices · F/w · step)

so that other microbatches in flight hide delays, and no step is shorter than one microbatch's way through all
blocks. Without delays this is the makespan of 1F1B, interleaved where there are chunks.

Experts: the model holds S weights for each active one (sparsity S), S/e of them at a device, which are read
and updated for each microbatch; each token's vector is sent there and back, forward and backward.

Free variables, all in ``ScalingAssumptions`` and none fixed by the paper's notebook: batch and depth with
their powers, ratio r, tokens per parameter, sparsity, base utilization, launch and hop latencies, and chunks
of an interleaved pipeline. Their defaults are round numbers chosen so that the curve of the H100 lies near
the published one (``data_movement_curve`` says how near): agreement is a fit, not evidence. Neglected: the
devices' memory, the optimizer, links slower than N.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.errors import InputError
from perfcast.published.comparison import print_part
from perfcast.published.data_movement.layer import (
    LinearLayer,
    Movement,
    TrainingDevice,
    Values,
    count_gradients,
    count_microbatch,
    time_movement,
)


@dataclass(frozen=True, kw_only=True)
class ScalingAssumptions:
    """What the curve depends on beside the device.

    Attributes:
        reference_flops: Training compute at which batch and aspect are given.
        batch_exponent: The batch grows with compute to this power.
        aspect: Width per block at the reference.
        depth_exponent: The number of blocks grows with active parameters to this power; 1/3 keeps the aspect.
        feedforward_ratio: r.
        sparsity: Weights for each active one; 1 is dense.
        launch_seconds: Before each layer's forward, and its backward.
        hop_seconds: For each doubling of a collective's devices.
        num_chunks: Of the model at each pipeline stage (interleaved schedule); 1 is plain 1F1B.
    """

    run_seconds: float = 90 * 86400.0
    tokens_per_parameter: float = 20.0
    word_bytes: float = 2.0
    reference_flops: float = 2e25
    batch_tokens: float = 4e6
    batch_exponent: float = 1 / 6
    aspect: float = 100.0
    depth_exponent: float = 1 / 3
    feedforward_ratio: float = 5.0
    sparsity: float = 8.0
    base_utilization: float = 0.7
    launch_seconds: float = 1e-6
    hop_seconds: float = 1e-7
    num_chunks: float = 1.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            least, most = _RANGES.get(name, _RANGE)
            if not least <= value <= most:
                raise InputError(f"{name} = {value:g} is not between {least:g} and {most:g}")


_RANGE = (1e-3, 1e36)
_RANGES = {
    "batch_exponent": (0.0, 1.0),
    "depth_exponent": (0.0, 1.0),
    "base_utilization": (1e-3, 1.0),
    "launch_seconds": (0.0, 1.0),
    "hop_seconds": (0.0, 1.0),
    "num_chunks": (1.0, 1e3),
    "sparsity": (1.0, 4096.0),
}


@dataclass(frozen=True)
class TrainingRun:
    """A run of some compute; ``step_seconds`` is what a step may take."""

    flops: float
    num_parameters: float
    num_tokens: float
    batch_tokens: float
    num_blocks: float
    width: float
    step_seconds: float


@dataclass(frozen=True)
class Plan:
    """Degrees, and microbatches in a step; each a number or an array of them."""

    tensor: Values
    pipeline: Values
    data: Values
    expert: Values
    num_microbatches: Values

    @property
    def num_devices(self) -> Values:
        """The product of the degrees."""
        return self.tensor * self.pipeline * self.data * self.expert


@dataclass(frozen=True)
class StepTime:
    """Seconds of a step by what a device waits for; they add up.

    Attributes:
        arithmetic_seconds: At the base utilization.
        movement_seconds: Of memory and network in blocks, beyond the arithmetic that hides them.
        latency_seconds: Launches and hops in blocks that no other microbatch hides.
        bubble_seconds: Filling and draining the pipeline, without delays.
        gradient_seconds: The all-reduce at the end.
    """

    arithmetic_seconds: Values
    movement_seconds: Values
    latency_seconds: Values
    bubble_seconds: Values
    gradient_seconds: Values

    @property
    def seconds(self) -> Values:
        """The step."""
        return (
            self.arithmetic_seconds
            + self.movement_seconds
            + self.latency_seconds
            + self.bubble_seconds
            + self.gradient_seconds
        )


@dataclass(frozen=True)
class ScaledRun:
    """A run under its best plan; ``plan`` is None, and the utilization 0, where none ends in time."""

    run: TrainingRun
    plan: Plan | None
    time: StepTime | None
    utilization: float


def size_run(flops: float, assumptions: ScalingAssumptions) -> TrainingRun:
    """Parameters, tokens, batch and shape of a run of ``flops``."""
    scale = flops / assumptions.reference_flops
    parameters = _num_parameters(flops, assumptions)
    reference = _num_parameters(assumptions.reference_flops, assumptions)
    ratio = assumptions.feedforward_ratio
    reference_blocks = (reference * assumptions.aspect / (2 * ratio)) ** (1 / 3) / assumptions.aspect
    num_blocks = reference_blocks * (parameters / reference) ** assumptions.depth_exponent
    batch_tokens = assumptions.batch_tokens * scale**assumptions.batch_exponent
    num_tokens = assumptions.tokens_per_parameter * parameters
    return TrainingRun(
        flops,
        parameters,
        num_tokens,
        batch_tokens,
        num_blocks,
        width=math.sqrt(parameters / (2 * ratio * num_blocks)),
        step_seconds=assumptions.run_seconds * batch_tokens / num_tokens,
    )


def _num_parameters(flops: float, assumptions: ScalingAssumptions) -> float:
    return math.sqrt(flops / (6 * assumptions.tokens_per_parameter))


def time_step(
    run: TrainingRun, plan: Plan, device: TrainingDevice, assumptions: ScalingAssumptions
) -> StepTime:
    """A step of ``run`` under ``plan``, by cause."""
    up, down = _split_block(run, plan, assumptions)
    tokens = run.batch_tokens / plan.num_microbatches
    copies = assumptions.sparsity / plan.expert
    arithmetic = movement = gradients = 0.0
    for layer in (up, down):
        work = _add_experts(count_microbatch(layer, tokens), layer, tokens, plan, copies)
        time = time_movement(work, device, assumptions.word_bytes)
        arithmetic = arithmetic + time.compute_seconds
        movement = movement + time.seconds - time.compute_seconds
        sums = count_gradients(replace(layer, d_in=layer.d_in * copies, num_replicas=plan.data))
        gradients = gradients + time_movement(sums, device, assumptions.word_bytes).seconds
    hops = 2 * (np.log2(up.t_in) + np.log2(up.t_out) + 2 * np.log2(plan.expert))
    delay = 4 * assumptions.launch_seconds + assumptions.hop_seconds * hops
    blocks = run.num_blocks / plan.pipeline
    busy = arithmetic + movement
    chunks = np.minimum(assumptions.num_chunks, blocks)
    bubble = _idle_slots(plan.pipeline, plan.num_microbatches, chunks)
    idle = _idle_slots(plan.pipeline * (busy + delay) / busy, plan.num_microbatches, chunks)
    return StepTime(
        arithmetic_seconds=arithmetic * blocks * plan.num_microbatches,
        movement_seconds=movement * blocks * plan.num_microbatches,
        latency_seconds=busy * blocks * (idle - bubble),
        bubble_seconds=busy * blocks * bubble,
        gradient_seconds=gradients * blocks + assumptions.hop_seconds * 2 * np.log2(plan.data),
    )


def _idle_slots(fill: Values, num_microbatches: Values, chunks: Values) -> Values:
    """Slots in which a device waits, of ``max(m, fill) + (min(m, fill) − 1)/chunks``."""
    return np.maximum(fill - num_microbatches, 0) + (np.minimum(fill, num_microbatches) - 1) / chunks


def _split_block(
    run: TrainingRun, plan: Plan, assumptions: ScalingAssumptions
) -> tuple[LinearLayer, LinearLayer]:
    ratio = assumptions.feedforward_ratio
    t_in = np.maximum(1.0, np.sqrt(plan.tensor / ratio))
    t_out = plan.tensor / t_in
    replicas = plan.data * plan.expert
    up = LinearLayer(run.width, ratio * run.width, t_in, t_out, replicas)
    return up, LinearLayer(ratio * run.width, run.width, t_out, t_in, replicas)


def _add_experts(work: Movement, layer: LinearLayer, tokens: Values, plan: Plan, copies: Values) -> Movement:
    """The weights of further experts at a device, and one of a token's two trips to its expert each way."""
    vector = np.minimum(layer.local_in, layer.local_out) * tokens / layer.num_replicas
    trips = 2 * 2 * vector * (plan.expert - 1) / plan.expert
    weights = 4 * layer.local_weights * (copies - 1)
    return Movement(work.flops, work.memory_words + weights + trips, work.network_words + trips)


def utilization_of(
    run: TrainingRun, plan: Plan, step_seconds: Values, device: TrainingDevice, word_bytes: float
) -> Values:
    """Share of the devices' peak that the model's flops take."""
    peak = plan.num_devices * device.byte_flops_per_second / word_bytes
    return 6 * run.num_parameters * run.batch_tokens / (peak * step_seconds)


#: Largest powers of two tried: tensor, pipeline, data, expert (by the sparsity), microbatches.
_LARGEST_POWERS = (24, 12, 26, 0, 14)
_DEGREE_NAMES = ("tensor", "pipeline", "data", "expert", "num_microbatches")
#: Steps of the powers around the best plan so far, and how many pipeline degrees are looked around.
_REFINEMENTS = (0.5, 0.25, 0.125, 0.06, 0.03)
_NUM_STARTS = 5


def scale_run(flops: float, device: TrainingDevice, assumptions: ScalingAssumptions) -> ScaledRun:
    """The run of ``flops`` under the plan of the highest utilization that ends in time.

    Degrees need not be whole. Powers of two are tried first, then finer steps around the best of each of the
    most promising pipeline degrees, since these differ most in kind. ``device`` takes the assumptions' base
    utilization.
    """
    run = size_run(flops, assumptions)
    device = replace(device, base_utilization=assumptions.base_utilization)
    axes = [np.arange(power + 1.0) for power in _LARGEST_POWERS]
    axes[3] = np.arange(math.floor(math.log2(assumptions.sparsity)) + 1.0)
    value = _rate_grid(run, axes, device, assumptions)
    by_pipeline = value.max(axis=(0, 2, 3, 4))
    starts = []
    for index in np.argsort(-by_pipeline, kind="stable")[:_NUM_STARTS]:
        here = [*axes[:1], axes[1][index : index + 1], *axes[2:]]
        starts.append(_peak(here, value[:, index : index + 1]))
    found = [_refine(run, axes, start, device, assumptions) for start in starts]
    utilization, plan = max(found, key=lambda pair: pair[0])
    if utilization <= 0:
        return ScaledRun(run, None, None, 0.0)
    return ScaledRun(run, plan, time_step(run, plan, device, assumptions), utilization)


def _refine(
    run: TrainingRun,
    axes: list[Floats],
    powers: list[float],
    device: TrainingDevice,
    assumptions: ScalingAssumptions,
) -> tuple[float, Plan]:
    """The best plan around one of ``powers`` of two, and its rating."""
    best = -math.inf
    for step in _REFINEMENTS:
        around = [
            np.unique(np.maximum(0.0, power + step * np.arange(-2.0, 3.0))) if len(axis) > 1 else axis
            for power, axis in zip(powers, axes, strict=True)
        ]
        value = _rate_grid(run, around, device, assumptions)
        powers, best = _peak(around, value), float(value.max())
    degrees = (float(2**power) for power in powers)
    return best, Plan(**dict(zip(_DEGREE_NAMES, degrees, strict=True)))


def _peak(axes: list[Floats], value: Floats) -> list[float]:
    index = np.unravel_index(int(np.argmax(value)), value.shape)
    return [float(axis[i]) for axis, i in zip(axes, index, strict=True)]


def _rate_grid(
    run: TrainingRun, axes: list[Floats], device: TrainingDevice, assumptions: ScalingAssumptions
) -> Floats:
    """Ratings of all plans whose degrees are two to the powers ``axes``, shape by their lengths."""
    grid = np.meshgrid(*(2**axis for axis in axes), indexing="ij", sparse=True)
    return _rate(run, Plan(*grid), device, assumptions)


def _rate(run: TrainingRun, plan: Plan, device: TrainingDevice, assumptions: ScalingAssumptions) -> Floats:
    """Utilization of plans that end in time; of others minus how late they are; −∞ of impossible ones.

    Possible are those of at most i and o tokens a device, for which the layer model holds (at all, it wants
    them well below), and of at least one.
    """
    seconds = time_step(run, plan, device, assumptions).seconds
    up, _ = _split_block(run, plan, assumptions)
    tokens = run.batch_tokens / (plan.num_microbatches * up.num_replicas)
    most = np.minimum(up.local_in, up.local_out)
    possible = (
        (tokens >= 1) & (tokens <= most) & (plan.pipeline <= run.num_blocks)
        & (plan.expert <= assumptions.sparsity)
    )  # fmt: skip
    utilization = utilization_of(run, plan, seconds, device, assumptions.word_bytes)
    late = -seconds / run.step_seconds
    return np.where(possible, np.where(late >= -1, utilization, late), -np.inf)


if __name__ == "__main__":
    print_part("data_movement.limits", "data_movement")
