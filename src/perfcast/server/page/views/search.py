"""The best plan of a model on a cluster, and why it wins."""

from __future__ import annotations

from perfcast.server.page.view import Control, Group, Plain, View
from perfcast.server.page.views.forecast import PRECISIONS

_MODES = (
    ("", "Training"),
    ("prefill", "Reading prompts"),
    ("decode", "Writing tokens"),
    ("serving", "Serving requests as they come"),
)
_OBJECTIVES = (
    ("", "as usual: the fastest"),
    ("time", "seconds of a step"),
    ("tokens-per-second", "tokens a second"),
    ("dollars-per-token", "dollars a token"),
    ("energy-per-token", "energy a token"),
    ("time-to-train", "time to train"),
    ("devices", "fewest devices for a deadline"),
    ("latency", "latency (serving)"),
)


def _is_training(plain: Plain) -> bool:
    return not plain.get("mode")


def _is_inference(plain: Plain) -> bool:
    return bool(plain.get("mode"))


def _is_serving(plain: Plain) -> bool:
    return plain.get("mode") == "serving"


def _is_of_steps(plain: Plain) -> bool:
    return not _is_serving(plain)


SEARCH = View(
    name="search",
    title="Search",
    icon="travel_explore",
    lead="The best way to spread a model over a cluster, and why it wins. A row's click explains its plan.",
    verb="search",
    start={
        "model": ("llama3-8b",),
        "cluster": ("dgx-h100:16",),
        "global_batch_size": (64,),
        "sequence_length": (4096,),
    },
    groups=(
        Group(
            title="Model",
            controls=(
                Control(fields=("model",), widget="name", names="models", label="Model"),
                Control(fields=("mode",), widget="choice", choices=_MODES, label="What is run"),
                Control(fields=("dtype",), widget="choice", choices=PRECISIONS, label="Precision"),
            ),
        ),
        Group(
            title="Where it runs",
            controls=(
                Control(
                    fields=("cluster",), widget="name", names="clusters", label="Cluster, as NAME:DEVICES"
                ),
            ),
        ),
        Group(
            title="Sizes",
            controls=(
                Control(fields=("global_batch_size",), label="Batch (sequences)", applies=_is_of_steps),
                Control(fields=("sequence_length",), label="Tokens of each", applies=_is_of_steps),
                Control(
                    fields=("input_length",),
                    label="Prompt tokens",
                    example="such as 1024",
                    applies=_is_serving,
                ),
                Control(
                    fields=("output_length",),
                    label="Answer tokens",
                    example="such as 256",
                    applies=_is_serving,
                ),
                Control(
                    fields=("concurrency",),
                    label="Clients at once",
                    example="such as 64",
                    applies=_is_serving,
                ),
            ),
        ),
        Group(
            title="What counts",
            controls=(
                Control(fields=("objective",), widget="choice", choices=_OBJECTIVES, label="Best by"),
                Control(fields=("fix",), label="Decided already", example="such as tp=8"),
                Control(
                    fields=("tokens",),
                    label="Tokens of the training",
                    example="such as 1e12",
                    applies=_is_training,
                ),
                Control(fields=("deadline",), label="Deadline", example="such as 30d", applies=_is_training),
                Control(
                    fields=("max_ttft",),
                    label="First token within",
                    example="such as 500ms",
                    applies=_is_inference,
                ),
                Control(
                    fields=("max_tpot",),
                    label="Each further within",
                    example="such as 30ms",
                    applies=_is_inference,
                ),
            ),
        ),
    ),
    hidden=("hand_over", "output", "store", "address", "backend", "prices", "launch", "launch_model"),
    is_job=True,
    has_plans=True,
)
