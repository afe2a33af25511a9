"""All-reduces by kernels that read the others' memory, as serving frameworks have them beside NCCL.

    seconds = start + step · (n - 1) + min(one shot, two shots)
    one shot   (n - 1) · bytes / rate: every rank reads all of the others' buffers and adds up
    two shots  a barrier + 2 · (n - 1) / n · bytes / rate: each adds up its n-th part, then reads the others'

(vLLM: csrc/custom_all_reduce.cuh; SGLang: sgl-kernel/csrc/allreduce; TensorRT-LLM:
kernels/customAllReduceKernels.cu, ``AllReduceStrategyType`` ONESHOT and TWOSHOT.) They need NVLink between
all ranks of a node, and are taken where they are faster than NCCL.
"""

from __future__ import annotations

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.machine.cluster import Cluster

#: Fitted by Nelder–Mead on mean |log(measured / seconds)| to 2,014 calls replayed as CUDA graphs by vLLM,
#: SGLang and TensorRT-LLM on 2, 4 and 8 A100, H100, H200, B200 and GB200 (ai-dynamo/aiconfigurator,
#: Apache-2.0), up to 64 MiB: 0.22; the interval is the 5th and 95th percentile of measured over seconds.
START_SECONDS = 4.37e-6
STEP_SECONDS = 8.7e-8
BARRIER_SECONDS = 8.66e-6
ONE_SHOT_SHARE = 0.571
TWO_SHOT_SHARE = 0.628
LOW, HIGH = 0.66, 1.75
_LINK = "nvlink"


def peer_all_reduce(cluster: Cluster, span: tuple[int, ...], message_bytes: Floats) -> Floats:
    """Seconds of all-reduces of one group, shape [n]; infinite where ranks cannot read each other's memory.

    Args:
        span: How the group lies in the cluster's levels.
        message_bytes: Of the whole buffer, shape [n].
    """
    ranks, link = span[0], cluster.levels[0].link
    joins_all = link.kind.startswith(_LINK) and not link.ring_bytes_per_second
    if ranks < 2 or any(members > 1 for members in span[1:]) or not joins_all:
        return np.full(len(message_bytes), np.inf)
    rate = link.bytes_per_second
    one = (ranks - 1) * message_bytes / (rate * ONE_SHOT_SHARE)
    two = BARRIER_SECONDS + 2 * (ranks - 1) / ranks * message_bytes / (rate * TWO_SHOT_SHARE)
    start = START_SECONDS + STEP_SECONDS * (ranks - 1)
    return np.asarray(start + np.minimum(one, two), dtype=np.float64)
