"""What a step does, and how it is timed."""

from __future__ import annotations

from typing import Literal, get_args

#: Forward, backward and optimizer; the forward over whole sequences; one token behind a cache.
Mode = Literal["train", "prefill", "decode"]
MODES: tuple[Mode, ...] = get_args(Mode)

#: Event by event, or by formulas of the pipeline.
Method = Literal["simulated", "closed_form"]
METHODS: tuple[Method, ...] = get_args(Method)
