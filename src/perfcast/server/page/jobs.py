"""Answers that take long: asked by a button, with progress, and ended on demand."""

from __future__ import annotations

import asyncio

from nicegui import background_tasks, ui

from perfcast.errors import PerfcastError
from perfcast.server.jobs import ENDED, Job
from perfcast.server.page.asking import read_reply
from perfcast.server.page.runner import Runner, Stage
from perfcast.server.page.view import Plain
from perfcast.server.problems import ProblemError

_LOOK_SECONDS = 0.25


class JobRunner(Runner):
    """One job of the server for each question, begun by a button or by opening an address."""

    def __init__(self, stage: Stage) -> None:
        """Draw the button and the progress where the caller stands."""
        self._stage = stage
        self._wanted: Plain = {}
        self._job: Job | None = None
        with ui.element("div").classes("job"):
            self._start = ui.button(stage.view.title, on_click=lambda: self._submit(pushes=True))
            self._start.props("unelevated no-caps")
            with (
                ui.element("div").classes("progress").props("role=status aria-live=polite") as self._progress
            ):
                self._bar = ui.linear_progress(0, show_value=False).props("instant-feedback rounded")
                self._bar.props('aria-label="Progress"')
                self._words = ui.label()
            self._cancel = ui.button("Cancel", on_click=self._end).props("outline no-caps")
        self._show_progress(None)

    def open(self, plain: Plain) -> None:
        """Begin at once."""
        self._wanted = plain
        self._submit(pushes=False)

    def changed(self, plain: Plain) -> None:
        """What is shown is of another question now, until the button is pressed."""
        self._wanted = plain
        self._stage.show_error("")

    def _submit(self, *, pushes: bool) -> None:
        jobs = self._stage.desk.jobs
        if self._job is not None:
            jobs.cancel(self._job.id)
        try:
            self._job = jobs.submit(self._stage.view.verb, self._wanted, ("document",))
        except (PerfcastError, ProblemError) as error:
            self._job = None
            self._stage.show_error(error.problem.detail if isinstance(error, ProblemError) else str(error))
            return
        self._stage.show_error("")
        background_tasks.create(self._follow(self._job, pushes=pushes), context=ui.context.client)

    async def _follow(self, job: Job, *, pushes: bool) -> None:
        client = ui.context.client
        while job.state not in ENDED:
            if job is self._job:
                self._show_progress(job)
            await asyncio.sleep(_LOOK_SECONDS)
            if client.is_deleted:  # nobody waits for it any more
                self._stage.desk.jobs.cancel(job.id)
                return
        if job is not self._job:
            return
        self._job = None
        self._show_progress(None)
        if job.state == "cancelled":
            self._stage.show_error("Cancelled: the answer below is of the question before.")
        elif job.problem is not None:
            self._stage.show_error(job.problem.detail)
        else:
            narrow = self._stage.is_narrow
            answered = await read_reply(job.asking.question, job.reply(), is_narrow=narrow)
            self._stage.show(answered, address="push" if pushes else "replace")

    def _end(self) -> None:
        if self._job is not None:
            self._stage.desk.jobs.cancel(self._job.id)

    def _show_progress(self, job: Job | None) -> None:
        for element in (self._progress, self._cancel):
            element.set_visibility(job is not None)
        if job is None:
            return
        self._words.set_text(_words(job))
        if job.progress is None:
            self._bar.props("indeterminate")
        else:
            self._bar.props(remove="indeterminate")
        self._bar.set_value(job.progress or 0.0)


def _words(job: Job) -> str:
    if job.state == "waiting":
        return "Waiting for other jobs"
    share = "" if job.progress is None else f"{100 * job.progress:.0f} %"
    return " · ".join(filter(None, (share, job.message or "working")))
