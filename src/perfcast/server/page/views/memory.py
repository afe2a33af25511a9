"""The memory of one step: over time, its peak explained, and what would make it fit."""

from __future__ import annotations

from perfcast.server.page.view import Control, Group, View
from perfcast.server.page.views.forecast import BATCHES, LENGTHS, MODEL, has_plan

MEMORY = View(
    name="memory",
    title="Memory",
    icon="memory",
    lead="What one step holds and when, why the peak is what it is, and what would make it fit.",
    verb="memory",
    start={"model": "gpt2", "device": "rtx-4090", "batch_size": 16, "sequence_length": 1024},
    groups=(
        MODEL,
        Group(
            title="Where it runs",
            controls=(
                Control(fields=("device", "devices"), widget="place"),
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
        Group(
            title="Also say",
            controls=(
                Control(fields=("fit",), label="What would make it fit"),
                Control(fields=("largest_batch",), label="Largest batch that fits"),
                Control(fields=("largest_sequence",), label="Longest sequence that fits"),
                Control(fields=("closed_form",), label="Closed form beside it"),
            ),
        ),
    ),
    hidden=("world_size", "rank"),
)
