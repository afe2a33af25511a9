"""What the server counts, as text that Prometheus reads (exposition format 0.0.4)."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: Upper ends of the histogram of answer times, in seconds.
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


#: Under which a request holds the template of the address that answers it.
ROUTE = "perfcast.route"


@dataclass(slots=True)
class Metrics:
    """Counters since the server's start.

    Attributes:
        requests: (Method, address as a template, status) → requests.
        seconds: Address as a template → requests by bucket, the last one above all.
        total_seconds: Address as a template → their sum.
        gauges: Name → (what it says, what it is now).
    """

    requests: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    seconds: dict[str, list[int]] = field(default_factory=dict)
    total_seconds: Counter[str] = field(default_factory=Counter)
    gauges: dict[str, tuple[str, Callable[[], float]]] = field(default_factory=dict)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Note one answer."""
        self.requests[method, route, status] += 1
        self.seconds.setdefault(route, [0] * (len(BUCKETS) + 1))[bisect_left(BUCKETS, seconds)] += 1
        self.total_seconds[route] += seconds  # type: ignore[assignment]

    def gauge(self, name: str, said: str, value: Callable[[], float]) -> None:
        """Add a figure that is asked when the metrics are."""
        self.gauges[name] = (said, value)

    @property
    def text(self) -> str:
        """All of them."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield "# HELP perfcast_requests_total Requests answered."
        yield "# TYPE perfcast_requests_total counter"
        for (method, route, status), number in sorted(self.requests.items()):
            labels = f'method="{method}",route="{route}",status="{status}"'
            yield f"perfcast_requests_total{{{labels}}} {number}"
        yield "# HELP perfcast_request_seconds Time of answers."
        yield "# TYPE perfcast_request_seconds histogram"
        for route, numbers in sorted(self.seconds.items()):
            below = 0
            for bound, number in zip((*BUCKETS, "+Inf"), numbers, strict=True):
                below += number
                yield f'perfcast_request_seconds_bucket{{route="{route}",le="{bound}"}} {below}'
            yield f'perfcast_request_seconds_sum{{route="{route}"}} {self.total_seconds[route]:.6f}'
            yield f'perfcast_request_seconds_count{{route="{route}"}} {below}'
        for name, (said, value) in self.gauges.items():
            yield f"# HELP perfcast_{name} {said}"
            yield f"# TYPE perfcast_{name} {'counter' if name.endswith('_total') else 'gauge'}"
            yield f"perfcast_{name} {value():g}"


class MetricsGuard:
    """Counts every answer by the template of its address, so that made-up addresses are one line."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and count its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        start = time.perf_counter()
        try:
            await self._app(scope, receive, watched)
        finally:
            method = scope["method"] if scope["method"] in _METHODS else "OTHER"
            self._metrics.count(method, _route_of(scope), status, time.perf_counter() - start)


_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def _route_of(scope: Scope) -> str:
    return str(scope.get(ROUTE) or ("/api" if scope["path"].startswith("/api/") else "/"))
