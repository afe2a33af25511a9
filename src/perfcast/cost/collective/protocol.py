"""Protocols: what the same algorithm takes with other messages between neighbours.

A rank that passes data on must know that it has come. LL sends a flag with every 4 bytes: the lowest latency,
half of the rate at best. LL128 sends 8 bytes of flag in 128. Simple synchronises by chunks: the full rate, at
the price of slower hops and of a pipeline that has to fill. With h hops of latency l(p) and a transfer of t
seconds at the full rate

    seconds(p) = launch(p) + Σ h · l(p) + t / share(p) + √(ramp(p) · t)

The last term is what an optimal chunk leaves: k chunks cost t / k for each of the stages to fill and a fixed
time for each chunk, and the least sum over k goes with the root of their product. The library takes the
protocol that its own model calls fastest; so do we. Since t is a number of seconds per byte times the
message, three numbers per group, algorithm and protocol price messages of any size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.cost.collective.constants import PROTOCOLS, Constants
from perfcast.cost.collective.geometry import Geometry
from perfcast.cost.collective.work import CollectiveWork

LL128 = PROTOCOLS.index("ll128")


@dataclass(frozen=True, eq=False)
class Offer:
    """What one algorithm with one protocol asks of u groups; arrays of shape [u].

    Attributes:
        algorithm, protocol: Index into ``ALGORITHMS`` and ``PROTOCOLS``.
        latency_seconds: Of a message of no bytes; inf where the offer does not hold.
        seconds_per_byte: Of the transfer.
        ramp: Square of the seconds that filling the pipeline takes, per byte.
        judged_seconds_per_byte: What the library's own model adds to the transfer when it chooses.
    """

    algorithm: int
    protocol: int
    latency_seconds: Floats
    seconds_per_byte: Floats
    ramp: Floats
    judged_seconds_per_byte: Floats

    def seconds(self, message_bytes: Floats, groups: np.ndarray) -> Floats:
        """Seconds of messages [n] to groups [n] (index into u); shape [n]."""
        seconds: Floats = self.latency_seconds[groups] + message_bytes * self.seconds_per_byte[groups]
        if self.ramp.any():
            seconds += np.sqrt(message_bytes * self.ramp[groups])
        return seconds


def offers_of(
    algorithm: int, work: CollectiveWork, geometry: Geometry, copied: Floats | float, constants: Constants
) -> Iterator[Offer]:
    """One offer for each protocol that the work's pattern has.

    Args:
        work: For messages of one byte.
        copied: Seconds per byte for what stays on the rank, shape [u].
    """
    pattern = constants.patterns[work.pattern]
    usable = np.isfinite(work.transfer_seconds)
    transfer = np.where(usable, work.transfer_seconds + copied, 0.0) / pattern.share
    judged = np.zeros_like(transfer)
    if work.judged_seconds is not None:
        judged = np.where(usable, work.judged_seconds - work.transfer_seconds, 0.0)
    for protocol, launch in enumerate(pattern.launch_seconds):
        if math.isinf(launch):
            continue
        holds = usable & (geometry.allows_ll128 | (protocol != LL128))
        latency = launch + work.hops @ geometry.hop_seconds[protocol]
        yield Offer(
            algorithm=algorithm,
            protocol=protocol,
            latency_seconds=np.where(holds, latency, np.inf),
            seconds_per_byte=transfer / constants.protocol_shares[protocol],
            ramp=transfer * pattern.ramp_seconds[protocol],
            judged_seconds_per_byte=judged,
        )
