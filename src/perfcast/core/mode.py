"""What a step does."""

from __future__ import annotations

from typing import Literal, get_args

#: Forward, backward and optimizer; the forward over whole sequences; one token behind a cache.
Mode = Literal["train", "prefill", "decode"]
MODES: tuple[Mode, ...] = get_args(Mode)
