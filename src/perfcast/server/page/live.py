"""Answers while controls move: the last question counts, one is answered at a time."""

from __future__ import annotations

import asyncio

from nicegui import background_tasks, ui

from perfcast.errors import PerfcastError
from perfcast.server.page.asking import ask
from perfcast.server.page.runner import Runner, Stage
from perfcast.server.page.view import Plain

#: How long controls must stand still before they are asked about.
_STILL_SECONDS = 0.12


class LiveRunner(Runner):
    """Of what is answered in a moment, once it is warm."""

    def __init__(self, stage: Stage) -> None:
        """Draw a sign of work where the caller stands."""
        self._stage = stage
        self._wanted: Plain | None = None
        self._is_asking = False
        self._pushes = False
        with ui.element("div").classes("busy").props("role=status") as self._busy:
            ui.label("Working").classes("unseen")
        self._busy.set_visibility(False)

    def open(self, plain: Plain) -> None:
        """Ask it; the address before is not one to go back to."""
        self._want(plain, pushes=False)

    def changed(self, plain: Plain) -> None:
        """Ask it, once the controls stand still."""
        self._want(plain, pushes=True)

    def _want(self, plain: Plain, *, pushes: bool) -> None:
        self._wanted, self._pushes = plain, pushes
        if not self._is_asking:
            self._is_asking = True
            background_tasks.create(self._ask_until_still(), context=ui.context.client)

    async def _ask_until_still(self) -> None:
        try:
            while self._wanted is not None:
                wanted = self._wanted
                if self._pushes:
                    await asyncio.sleep(_STILL_SECONDS)
                    if wanted is not self._wanted:
                        continue
                self._wanted = None
                await self._ask(wanted, pushes=self._pushes)
        finally:
            self._is_asking = False
            self._busy.set_visibility(False)

    async def _ask(self, plain: Plain, *, pushes: bool) -> None:
        self._busy.set_visibility(True)
        try:
            stage = self._stage
            answered = await ask(stage.desk, stage.view.verb, plain, is_narrow=stage.is_narrow)
        except PerfcastError as error:
            if self._wanted is None:
                self._stage.show_error(str(error))
        else:
            self._stage.show(answered, pushes=pushes)
