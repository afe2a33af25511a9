"""What clients wait under load, and what serving it answers, holds and costs."""

from __future__ import annotations

from collections.abc import Callable

from perfcast.server.page.view import Control, Group, Plain, View
from perfcast.server.page.views.forecast import PRECISIONS

_LENGTHS = tuple(2**power for power in range(5, 18))
_CLIENTS = tuple(2**power for power in range(13))
_REPLICAS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_FRAMEWORKS = (("", "vLLM"), ("sglang", "SGLang"), ("trtllm", "TensorRT-LLM"))
_METHODS = (
    ("", "Events and formula"),
    ("events", "Every step, by events"),
    ("closed-form", "Steady state, by formula"),
)
_SWEEPS = (
    ("", "no sweep: this load alone"),
    ("concurrency=1,4,16,64,256", "clients: 1 to 256"),
    ("request-rate=0.5,1,2,4,8,16", "requests a second: 0.5 to 16"),
    ("replicas=1,2,4,8", "replicas: 1 to 8"),
    ("input-length=512,1024,2048,4096,8192", "prompts: 512 to 8,192 tokens"),
    ("output-length=64,128,256,512,1024", "answers: 64 to 1,024 tokens"),
)


def _is_together(plain: Plain) -> bool:
    return not (plain.get("prefill_plan") or plain.get("decode_plan"))


def _has_replicas(plain: Plain) -> bool:
    return _is_together(plain) and _is_one("replicas")(plain)


def _swept(plain: Plain) -> str:
    """What curves are over."""
    sweep = plain.get("sweep")
    return " ".join(map(str, sweep)) if isinstance(sweep, (list, tuple)) else ""


def _is_one(name: str) -> Callable[[Plain], bool]:
    """Whether a question has one value of it, not a curve's."""
    return lambda plain: f"{name}=" not in _swept(plain)


def _has_clients(plain: Plain) -> bool:
    others = plain.get("request_rate") or plain.get("saturated")
    return not others and _is_one("concurrency")(plain) and _is_one("request-rate")(plain)


def _has_rate(plain: Plain) -> bool:
    return not plain.get("saturated") and _is_one("concurrency")(plain) and _is_one("request-rate")(plain)


def _is_played(plain: Plain) -> bool:
    return not _swept(plain) and plain.get("method") != "closed-form"


SERVING = View(
    name="serving",
    title="Serving",
    icon="dns",
    lead="What clients wait for a first and each further token under load, and what the answers cost.",
    verb="serving",
    start={
        "model": "llama3-8b",
        "device": "h100-sxm",
        "plan": "tp=1",
        "input_length": "1024",
        "output_length": "256",
        "concurrency": 16,
    },
    groups=(
        Group(
            title="Model",
            controls=(
                Control(fields=("model",), widget="name", names="models", label="Model"),
                Control(fields=("framework",), widget="choice", choices=_FRAMEWORKS, label="Served by"),
                Control(fields=("dtype",), widget="choice", choices=PRECISIONS, label="Precision"),
            ),
        ),
        Group(
            title="Where it runs",
            controls=(
                Control(fields=("device", "devices", "cluster"), widget="place"),
                Control(fields=("plan",), label="Plan of a replica", applies=_is_together),
                Control(
                    fields=("replicas",), label="Replicas", example="as many as fit", applies=_has_replicas
                ),
                Control(fields=("prefill_plan",), label="Prefill plan, if apart", example="such as tp=2"),
                Control(fields=("decode_plan",), label="Decode plan, if apart", example="such as tp=4"),
            ),
        ),
        Group(
            title="Load",
            controls=(
                Control(
                    fields=("concurrency",),
                    widget="steps",
                    steps=_CLIENTS,
                    label="Clients at once",
                    applies=_has_clients,
                ),
                Control(
                    fields=("request_rate",),
                    label="Or requests a second",
                    example="such as 2.5",
                    applies=_has_rate,
                ),
                Control(fields=("saturated",), label="Or all at once"),
                Control(
                    fields=("input_length",),
                    widget="steps",
                    steps=_LENGTHS,
                    label="Prompt tokens",
                    applies=_is_one("input-length"),
                ),
                Control(
                    fields=("output_length",),
                    widget="steps",
                    steps=_LENGTHS,
                    label="Answer tokens",
                    applies=_is_one("output-length"),
                ),
            ),
        ),
        Group(
            title="Limits that count as good",
            controls=(
                Control(fields=("max_ttft",), label="First token within", example="such as 500ms"),
                Control(fields=("max_tpot",), label="Each further within", example="such as 30ms"),
            ),
        ),
        Group(
            title="Curves",
            controls=(
                Control(fields=("sweep",), widget="choice", choices=_SWEEPS, label="Sweep over"),
                Control(fields=("method",), widget="choice", choices=_METHODS, label="How it is forecast"),
            ),
        ),
    ),
    hidden=("requests", "launch", "launch_model"),
    has_timeline=_is_played,
)
