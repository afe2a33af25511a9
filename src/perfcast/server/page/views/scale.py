"""What becomes of a step on more and more devices, and how far training can scale at all."""

from __future__ import annotations

from perfcast.server.page.view import Control, Group, Plain, View
from perfcast.server.page.views.forecast import BATCHES, LENGTHS, PRECISIONS

_MODES = (
    ("", "Training step"),
    ("prefill", "Reading prompts (prefill)"),
    ("decode", "Writing tokens (decode)"),
    ("serve", "Both, of a standing batch"),
)


def _is_of_devices(plain: Plain) -> bool:
    return not plain.get("limits")


def _is_training(plain: Plain) -> bool:
    return _is_of_devices(plain) and not plain.get("mode")


def _is_inference(plain: Plain) -> bool:
    return _is_of_devices(plain) and bool(plain.get("mode"))


SCALE = View(
    name="scale",
    title="Scale and limits",
    icon="trending_up",
    lead="What more devices bring, where it stops to pay, and how far a training run can scale at all.",
    verb="scale",
    start={
        "model": "llama3-8b",
        "cluster": ("dgx-h100",),
        "devices": (8, 16, 32, 64, 128, 256, 512),
        "plan": "tp=2,zero=1",
        "batch_size": 512,
        "sequence_length": 4096,
    },
    groups=(
        Group(
            title="Question",
            controls=(
                Control(fields=("limits",), label="How far training can scale at all"),
                Control(
                    fields=("assume",),
                    label="Assume",
                    example="such as word_bytes=1",
                    applies=lambda plain: bool(plain.get("limits")),
                ),
            ),
        ),
        Group(
            title="Model",
            controls=(
                Control(
                    fields=("model",), widget="name", names="models", label="Model", applies=_is_of_devices
                ),
                Control(
                    fields=("mode",),
                    widget="choice",
                    choices=_MODES,
                    label="What is run",
                    applies=_is_of_devices,
                ),
                Control(
                    fields=("dtype",),
                    widget="choice",
                    choices=PRECISIONS,
                    label="Precision",
                    applies=_is_of_devices,
                ),
            ),
        ),
        Group(
            title="Where it runs",
            controls=(
                Control(
                    fields=("cluster",),
                    widget="name",
                    names="clusters",
                    label="Cluster",
                    applies=_is_of_devices,
                ),
                Control(
                    fields=("devices",),
                    label="Numbers of devices",
                    example="such as 8, 64, 512",
                    applies=_is_of_devices,
                ),
                Control(fields=("plan",), label="Plan", applies=_is_of_devices),
            ),
        ),
        Group(
            title="Sizes",
            controls=(
                Control(
                    fields=("batch_size",),
                    widget="steps",
                    steps=BATCHES,
                    label="Batch (sequences)",
                    applies=_is_training,
                ),
                Control(
                    fields=("sequence_length",),
                    widget="steps",
                    steps=LENGTHS,
                    label="Tokens of each",
                    applies=_is_training,
                ),
                Control(fields=("weak",), label="Batch grows with devices", applies=_is_training),
                Control(
                    fields=("batch_sizes",),
                    label="Sequences at once",
                    example="such as 1, 8, 64",
                    applies=_is_inference,
                ),
                Control(
                    fields=("contexts",),
                    label="Context lengths",
                    example="such as 2048, 8192",
                    applies=_is_inference,
                ),
            ),
        ),
    ),
    hidden=("data",),
)
