"""What click decorates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: A command: it is called with a keyword for each option.
Command = Callable[..., Any]
