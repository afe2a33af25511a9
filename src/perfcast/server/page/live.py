"""Answers while controls move: a newer question does not wait for the answer to an older one."""

from __future__ import annotations

import asyncio

from nicegui import background_tasks, ui

from perfcast.errors import PerfcastError
from perfcast.server.page.asking import ask
from perfcast.server.page.runner import Runner, Stage
from perfcast.server.page.view import Plain

#: How long controls must stand still before they are asked about.
_STILL_SECONDS = 0.12
#: Questions of one client that are answered at a time: the newest, and the one before.
_MOST_AT_ONCE = 2


class LiveRunner(Runner):
    """Of what is answered in a moment, once it is warm."""

    def __init__(self, stage: Stage) -> None:
        """Draw a sign of work where the caller stands."""
        self._stage = stage
        self._turn = asyncio.Semaphore(_MOST_AT_ONCE)
        self._newest = self._shown = 0
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
        self._newest += 1
        background_tasks.create(self._ask(self._newest, plain, pushes=pushes), context=ui.context.client)

    async def _ask(self, number: int, plain: Plain, *, pushes: bool) -> None:
        if pushes:
            await asyncio.sleep(_STILL_SECONDS)
        async with self._turn:
            if number != self._newest:
                return
            self._busy.set_visibility(True)
            try:
                await self._show(number, plain, pushes=pushes)
            finally:
                if number == self._newest:
                    self._busy.set_visibility(False)

    async def _show(self, number: int, plain: Plain, *, pushes: bool) -> None:
        stage = self._stage
        try:
            answered = await ask(stage.desk, stage.view.verb, plain, is_narrow=stage.is_narrow)
        except PerfcastError as error:
            if number == self._newest:
                stage.show_error(str(error))
            return
        if number > self._shown:  # an older answer never takes the place of a newer one
            self._shown = number
            is_newest = number == self._newest
            stage.show(answered, address=("push" if pushes else "replace") if is_newest else "keep")
