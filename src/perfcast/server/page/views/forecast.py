"""Time and memory of one step."""

from __future__ import annotations

from perfcast.server.page.view import Control, Group, Plain, View

#: What sliders offer.
BATCHES = tuple(2**power for power in range(14))
LENGTHS = tuple(2**power for power in range(7, 18))
MODES = (
    ("", "Training step"),
    ("prefill", "Reading prompts (prefill)"),
    ("decode", "Writing tokens (decode)"),
)
PRECISIONS = (
    ("", "as usual for the model"),
    *((name, name) for name in ("bf16", "fp16", "fp32", "tf32", "fp8", "fp8_block", "mxfp8", "nvfp4")),
)

#: What is run: the same controls in every view of a step.
MODEL = Group(
    title="Model",
    controls=(
        Control(fields=("model",), widget="name", names="models", label="Model"),
        Control(fields=("mode",), widget="choice", choices=MODES, label="What is run"),
        Control(fields=("dtype",), widget="choice", choices=PRECISIONS, label="Precision"),
    ),
)


def has_plan(plain: Plain) -> bool:
    """Whether several devices are asked for, or a plan."""
    return bool(plain.get("cluster") or plain.get("devices") or plain.get("plan"))


FORECAST = View(
    name="forecast",
    title="Forecast",
    icon="speed",
    lead="How long one step takes and what memory it needs, on one device or spread over many.",
    verb="predict",
    start={
        "model": "llama3-8b",
        "device": "h100-sxm",
        "devices": 8,
        "plan": "zero=3,mbs=1",
        "batch_size": 64,
        "sequence_length": 4096,
    },
    groups=(
        MODEL,
        Group(
            title="Where it runs",
            controls=(
                Control(fields=("device", "devices", "cluster"), widget="place"),
                Control(fields=("plan",), widget="plan", label="Plan", applies=has_plan),
            ),
        ),
        Group(
            title="Sizes",
            controls=(
                Control(fields=("batch_size",), widget="steps", steps=BATCHES, label="Batch (sequences)"),
                Control(fields=("sequence_length",), widget="steps", steps=LENGTHS, label="Tokens of each"),
            ),
        ),
    ),
    hidden=("weights", "chakra", "world_size"),
    has_timeline=lambda plain: not plain.get("closed_form"),
)
