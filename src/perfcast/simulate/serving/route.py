"""Which engine a request goes to.

Round robin is what SGLang's data-parallel controller (srt/managers/data_parallel_controller.py: ROUND_ROBIN)
and plain proxies do; least requests what vLLM's load balancer between data-parallel engines
(v1/engine/core_client.py, DPLBAsyncMPClient: fewest waiting and running) and TensorRT-LLM's attention data
parallelism (py_executor.py: ranks with the fewest active requests) do.
"""

from __future__ import annotations

from typing import Literal

from perfcast.simulate.serving.replica import Replica
from perfcast.simulate.serving.schedulers.base import Scheduler

RoutePolicy = Literal["least_requests", "round_robin"]


class Router:
    """Deals requests out to the engines of a pool; of equals the first, replicas in turn.

    Args:
        replicas: Of the pool.
        policy: How.
    """

    def __init__(self, replicas: list[Replica], policy: RoutePolicy) -> None:
        self._targets = [
            (replica, replica.engines[place])
            for place in range(len(replicas[0].engines))
            for replica in replicas
        ]
        self._place = {id(engine): place for place, (_, engine) in enumerate(self._targets)}
        self._outstanding = [0] * len(self._targets)
        self._policy, self._turn = policy, 0

    def choose(self) -> tuple[Replica, Scheduler]:
        """Whose the next request is."""
        outstanding = self._outstanding
        if self._policy == "round_robin":
            place = self._turn
            self._turn = (self._turn + 1) % len(self._targets)
        else:
            place = outstanding.index(min(outstanding))
        outstanding[place] += 1
        return self._targets[place]

    def leave(self, engine: Scheduler) -> None:
        """A request of that engine has ended."""
        self._outstanding[self._place[id(engine)]] -= 1
