"""Colours, chosen to read on white and on dark grounds; one thing has one colour in every figure."""

from __future__ import annotations

from perfcast.core.tensor import Category

BLUE, ORANGE, GREEN, PINK = "#3b82c4", "#e08a1e", "#2fa37c", "#c56a9e"
PURPLE, RED, YELLOW, GREY = "#8673c9", "#d0602c", "#c2a51f", "#8a94a3"
INK, LINE = "#6b7686", "rgba(128,140,156,0.28)"
NAVY = "#1f4e7d"
#: For series without a meaning of their own.
TURNS = (BLUE, ORANGE, GREEN, PINK, PURPLE, RED, YELLOW, GREY)

#: Families of kinds of operations that share a colour.
FAMILIES = {
    "matmul": ("products", BLUE),
    "batched_matmul": ("products", BLUE),
    "grouped_matmul": ("products", BLUE),
    "convolution": ("convolution", PURPLE),
    "recurrent": ("recurrent", PURPLE),
    "attention": ("attention", ORANGE),
    "elementwise": ("elementwise", GREEN),
    "reduction": ("rows", PINK),
    "softmax": ("rows", PINK),
    "normalization": ("rows", PINK),
    "loss": ("rows", PINK),
    "embedding": ("look-up", YELLOW),
    "indexing": ("look-up", YELLOW),
    "optimizer": ("optimizer", RED),
}
OTHER_FAMILY = ("other", GREY)

PHASES = {"forward": BLUE, "backward": ORANGE, "optimizer": GREEN}

#: What a step under a plan goes to.
CAUSES = {
    "compute": BLUE,
    "recompute": NAVY,
    "optimizer": GREEN,
    "tensor": ORANGE,
    "context": YELLOW,
    "expert": PURPLE,
    "data": PINK,
    "pipeline": "#7a5230",
    "offload": "#4fb3bf",
    "bubble": "rgba(138,148,163,0.45)",
    "host": RED,
    "straggler": "#b3261e",
    "other": GREY,
}

#: Why memory is held, in the order in which it is stacked: what stays is at the bottom.
CATEGORIES = {
    Category.PARAMETER: BLUE,
    Category.OPTIMIZER_STATE: PURPLE,
    Category.GRADIENT: GREEN,
    Category.ACTIVATION: ORANGE,
    Category.TEMPORARY: RED,
    Category.KV_CACHE: PINK,
    Category.INPUT: YELLOW,
    Category.BUFFER: GREY,
}
#: What the allocator and the driver hold beside tensors.
RESERVE = "#5f6b7a"

#: What limits an operation, as ``cost.model`` says it.
RESOURCES = {"compute": BLUE, "memory": ORANGE, "launch": RED, "other": GREY}

#: Layers go from light to dark; other modules take turns.
LAYERS = ("#cfe3f5", "#b3d2ee", "#96c0e5", "#7aaedb", "#5f9bcf", "#4788c1", "#3574ad", "#265f95")
MODULES = (ORANGE, GREEN, PINK, YELLOW, RED, "#5bb5b0")


def in_turns(count: int) -> list[str]:
    """A colour for each of some series."""
    return [TURNS[index % len(TURNS)] for index in range(count)]
