"""Progress of what takes long, on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def status() -> Iterator[Callable[[float | None, str], None]]:
    """A line that says what is being done, once something is said."""
    from rich.console import Console

    with ExitStack() as stack:
        line = stack.enter_context(Console(stderr=True, highlight=False).status(""))

        def tell(share: float | None, text: str) -> None:
            line.update(text if share is None else f"{text} ({share:.0%})")

        yield tell
