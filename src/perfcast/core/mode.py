"""What a step does, and how it is timed."""

from __future__ import annotations

from typing import Literal, get_args

#: Forward, backward and optimizer; the forward over whole sequences; one token behind a cache.
Mode = Literal["train", "prefill", "decode"]
MODES: tuple[Mode, ...] = get_args(Mode)

#: Event by event, or by formulas of the pipeline.
Method = Literal["simulated", "closed_form"]
METHODS: tuple[Method, ...] = get_args(Method)

#: No sequence is longer where no length is asked for: what today's language models are trained with at most
#: before their context is extended (Llama 3: 8,192 tokens; DeepSeek-V3 and Qwen3: 4,096).
MOST_TOKENS = 8192
