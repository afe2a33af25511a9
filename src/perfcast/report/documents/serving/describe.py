"""Words for deployments, loads and bounds."""

from __future__ import annotations

from perfcast.core.forecast.serving import Between, ServingForecast
from perfcast.core.plan import Plan
from perfcast.core.serving.deployment import Aggregated, Deployment, Pool
from perfcast.core.serving.load import ClosedLoad, Load, OpenLoad, RecordedLoad
from perfcast.report import palette
from perfcast.report.values import Unit, format_value

#: What limits → how that is said, and its colour.
BOUNDS: dict[str, tuple[str, str]] = {
    "compute": ("computing", palette.BLUE),
    "memory": ("reading memory", palette.ORANGE),
    "communication": ("communication", palette.PURPLE),
    "host": ("host", palette.RED),
    "kv_memory": ("no room for keys and values", palette.PINK),
    "queue": ("no requests (idle)", palette.GREY),
}


_DEGREES = {
    "tp": "tensor_parallel",
    "pp": "pipeline_parallel",
    "dp": "data_parallel",
    "ep": "expert_parallel",
}


def describe_deployment(deployment: Deployment) -> str:
    """Replicas and their plans.

    >>> describe_deployment(Aggregated(Pool(Plan(tensor_parallel=4), 2)))
    '2 × tp=4'
    """
    if isinstance(deployment, Aggregated):
        return describe_pool(deployment.pool)
    return f"{describe_pool(deployment.prefill)} read, {describe_pool(deployment.decode)} write"


def describe_pool(pool: Pool) -> str:
    """One pool: how many replicas, and the degrees of each."""
    degrees = describe_degrees(pool.plan)
    return f"{pool.replicas} × {degrees}" if pool.replicas > 1 else degrees


def describe_degrees(plan: Plan) -> str:
    """Degrees above 1; 'one device' where there is none."""
    found = [f"{key}={getattr(plan, name)}" for key, name in _DEGREES.items() if getattr(plan, name) > 1]
    return " ".join(found) or "one device"


def describe_load(load: Load) -> str:
    """In one line.

    >>> describe_load(OpenLoad(2.5))
    '2.5 requests/s (Poisson)'
    """
    if isinstance(load, ClosedLoad):
        return f"{load.concurrency:,} clients" if load.concurrency > 1 else "1 client"
    if isinstance(load, OpenLoad):
        shape = {0.0: "even", 1.0: "Poisson"}.get(load.burstiness, f"burstiness {load.burstiness:g}")
        return f"{load.requests_per_second:g} requests/s ({shape})"
    return "requests as recorded" if isinstance(load, RecordedLoad) else "all requests at once"


def describe_lengths(forecast: ServingForecast) -> str:
    """Mean tokens of prompts and answers, from what is read and written; '' where nothing is."""
    rates = forecast.rates
    if not rates.requests_per_second.value:
        return ""
    prompt, answer = (
        each.value / rates.requests_per_second.value
        for each in (rates.input_tokens_per_second, rates.output_tokens_per_second)
    )
    return f"prompts of {prompt:,.0f} tokens, answers of {answer:,.0f} (mean)"


def interval(figure: Between, unit: Unit) -> str:
    """Its ends, their unit once where it is one.

    >>> interval(Between(1.8, 1.6, 2.0), "s")
    '1.60 – 2.00 s'
    """
    low, high = (format_value(end, unit) for end in (figure.low, figure.high))
    number, _, low_unit = low.partition(" ")
    return f"{number if low_unit == high.partition(' ')[2] else low} – {high}"
