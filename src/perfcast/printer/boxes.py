"""rich's console, whose texts are made visible."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook
from rich.segment import Segment

from perfcast.errors import InputError
from perfcast.printer.streams import is_open, plain_errors
from perfcast.printer.text import visible


def visible_console(*, is_error: bool = False, soft_wrap: bool = False) -> Console:
    """A console for standard output or standard error, whose strings are no markup.

    Raises:
        InputError: Standard output is closed.
    """
    if not is_error and not is_open(sys.stdout):
        raise InputError("cannot write to standard output: it is closed")
    file = plain_errors() if is_error else None
    return _VisibleConsole(
        file=file, stderr=is_error, highlight=False, markup=False, emoji=False, soft_wrap=soft_wrap
    )


class _VisibleConsole(Console):
    """All that is printed goes through ``visible``; only rich's own codes command the terminal."""

    def __init__(self, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self.push_render_hook(_Hook())

    def on_broken_pipe(self) -> None:
        """Nobody reads on: whoever runs the program decides what that means."""
        self.quiet = True
        raise BrokenPipeError


class _Hook(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Visible(one) for one in renderables]


class _Visible:
    """What is rendered, with its texts made visible."""

    def __init__(self, shown: ConsoleRenderable) -> None:
        self._shown = shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for segment in console.render(self._shown, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)
