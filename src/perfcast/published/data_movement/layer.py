"""Data movement of one linear layer in training: what bounds it, arithmetic, memory or network.

Erdil and Schneider-Joseph (Epoch AI), "Data movement limits to frontier model training", arXiv 2411.01137:
the linear-layer model of the notebook published with it. ``python -m perfcast.published.data_movement``
prints its four check values; ``data_movement_limits`` says with it how far a training run can scale. Rooms:
none but the ground, since the paper's device is three rates and its network one level.

A layer d_in × d_out is split t_in × t_out ways (two-dimensional tensor parallelism) and copied D times; a
device holds i = d_in/t_in, o = d_out/t_out, n = i·o, and works on β = b/D of a microbatch's b tokens. Nothing
needs to divide evenly. Over p devices, an all-reduce of a local vector of x words (reduce-scatter, then a
multicast whose sending is free) moves A(x, p) = 3 (p−1) x/p words at a device, sent or received. Microbatch:

    flops         = 6 n β                       three products: forward, backward to inputs and to weights
    memory words  = n + A(oβ, t_in) + iβ        forward: weights; outputs summed up; inputs reloaded
                    + 2n + n + A(iβ, t_out)     backward: weight gradients read and written; weights; input
                                                gradients summed up
    network words = A(oβ, t_in) + A(iβ, t_out)
    seconds       = max(flops·w / (u F), memory·w / (u G), network·w / N)

with words of w bytes, F the peak at one byte (F/w at w bytes), G and N the rates of memory and network, and
the base utilization u, which the network is not subject to. A batch ends with an all-reduce of the gradients,
A(n, D) words, which pass through memory and network.

Assumed, as there: movement and arithmetic overlap fully (several microbatches are in flight); pipeline
communication is negligible and its bubble modelled elsewhere; pointwise operations, normalization and
attention are neglected; β is well below i and o; activations just used lie in the L2 cache, weights do not;
multicast is free.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from perfcast.printer.streams import say
from perfcast.published.comparison import print_part

#: A number, or an array of numbers that broadcasts against the others (a grid of plans).
Values: TypeAlias = Any


@dataclass(frozen=True)
class TrainingDevice:
    """A device as the paper sees it.

    Attributes:
        byte_flops_per_second: Peak of products of 8-bit numbers; wider ones run slower by their bytes.
        base_utilization: Of that peak and of the memory's rate, at best.
    """

    name: str
    byte_flops_per_second: float
    memory_bytes_per_second: float
    network_bytes_per_second: float
    base_utilization: float = 0.8


#: The notebook's H100 SXM5; the network is NVLink's, both directions, between all devices.
H100_SXM5 = TrainingDevice("H100 SXM5", 1979e12, 3352e9, 900e9)


@dataclass(frozen=True)
class LinearLayer:
    """A layer on its devices, degrees as above; each a number or an array of them."""

    d_in: Values
    d_out: Values
    t_in: Values = 1
    t_out: Values = 1
    num_replicas: Values = 1

    @property
    def local_in(self) -> Values:
        """Inputs at a device, i."""
        return self.d_in / self.t_in

    @property
    def local_out(self) -> Values:
        """Outputs at a device, o."""
        return self.d_out / self.t_out

    @property
    def local_weights(self) -> Values:
        """Weights at a device, n."""
        return self.local_in * self.local_out


@dataclass(frozen=True)
class Movement:
    """What a device computes and moves; words of whatever width."""

    flops: Values
    memory_words: Values
    network_words: Values


@dataclass(frozen=True)
class MovementTime:
    """Seconds of each resource; they work at once."""

    compute_seconds: Values
    memory_seconds: Values
    network_seconds: Values

    @property
    def seconds(self) -> Values:
        """Of the slowest."""
        return np.maximum(np.maximum(self.compute_seconds, self.memory_seconds), self.network_seconds)


def all_reduce_words(words: Values, num_devices: Values) -> Values:
    """A(x, p): words that a device sends and receives to sum up ``words`` over ``num_devices``."""
    return 3 * (num_devices - 1) * words / num_devices


def count_microbatch(layer: LinearLayer, tokens: Values) -> Movement:
    """Forward and backward of a microbatch of ``tokens`` over all replicas."""
    tokens = tokens / layer.num_replicas
    weights = layer.local_weights
    outputs = all_reduce_words(layer.local_out * tokens, layer.t_in)
    input_gradients = all_reduce_words(layer.local_in * tokens, layer.t_out)
    forward_words = weights + outputs + layer.local_in * tokens
    return Movement(
        flops=6 * weights * tokens,
        memory_words=forward_words + 2 * weights + weights + input_gradients,
        network_words=outputs + input_gradients,
    )


def count_gradients(layer: LinearLayer) -> Movement:
    """The all-reduce of the weights' gradients over the replicas, once a batch."""
    words = all_reduce_words(layer.local_weights, layer.num_replicas)
    return Movement(0, words, words)


def time_movement(movement: Movement, device: TrainingDevice, word_bytes: float) -> MovementTime:
    """Seconds at ``word_bytes`` a word."""
    utilization = device.base_utilization
    return MovementTime(
        movement.flops * word_bytes / (utilization * device.byte_flops_per_second),
        movement.memory_words * word_bytes / (utilization * device.memory_bytes_per_second),
        movement.network_words * word_bytes / device.network_bytes_per_second,
    )


@dataclass(frozen=True)
class PublishedSeconds:
    """A check value of the notebook; ``tokens`` 0 is the end of a batch."""

    name: str
    layer: LinearLayer
    tokens: float
    word_bytes: int
    seconds: float

    def compute(self) -> float:
        """Ours, on the notebook's H100."""
        movement = count_microbatch(self.layer, self.tokens) if self.tokens else count_gradients(self.layer)
        return float(time_movement(movement, H100_SXM5, self.word_bytes).seconds)


def published_seconds() -> tuple[PublishedSeconds, ...]:
    """The notebook's four: one for each resource, and the end of a batch."""
    first = LinearLayer(16384, 5 * 16384, t_in=8, t_out=40, num_replicas=32)
    split = replace(first, t_in=16, t_out=80)
    return (
        PublishedSeconds("bound by arithmetic", first, 2048**2 / 128, 2, 3.2554072481051035e-05),
        PublishedSeconds("bound by memory", first, 4096, 1, 6.89672553699284e-06),
        PublishedSeconds("bound by the network", split, 32768, 2, 1.3456725333333334e-05),
        PublishedSeconds("end of the batch", first, 0, 2, 2.7088213333333335e-05),
    )


def main() -> int:
    """Print ``published | ours | difference`` in seconds; 1 where one differs."""
    say(f"{'H100 SXM5, seconds':<22}{'published':>24}{'ours':>24}{'difference':>12}")
    differences = []
    for value in published_seconds():
        ours = value.compute()
        differences.append(ours - value.seconds)
        say(f"{value.name:<22}{value.seconds:>24}{ours:>24}{differences[-1]:>12}")
    return int(any(differences))


if __name__ == "__main__":
    print_part("data_movement.layer", "data_movement")
