"""A recording of PyTorch's profiler, uploaded: where its time went, and what it would be elsewhere."""

from __future__ import annotations

import asyncio
from html import escape
from urllib.parse import parse_qs, urlencode

from nicegui import background_tasks, run, ui
from nicegui.events import UploadEventArguments

from perfcast.errors import PerfcastError
from perfcast.server.desk import Desk
from perfcast.server.jobs import ENDED, Job
from perfcast.server.page.document import DocumentElement, Rendered, render_document
from perfcast.server.page.view import View
from perfcast.server.page.widgets.name import NameSelect
from perfcast.server.problems import Problem, ProblemError
from perfcast.server.processes.handle import Reply
from perfcast.server.processes.message import Kind
from perfcast.server.recordings import read_asking
from perfcast.units import format_bytes

_LOOK_SECONDS = 0.25
_KINDS: tuple[Kind, ...] = ("document", "json", "html")
_EXPLAIN, _FORECAST = "trace explain", "trace forecast"


class Traces:
    """One client's recording; its id, the device and the changes are in the address."""

    def __init__(self, query: str, desk: Desk) -> None:
        """Draw it where the caller stands, as an address says."""
        given = {name: values[0] for name, values in parse_qs(query.removeprefix("?")).items()}
        self._desk = desk
        self._id = given.get("id", "")
        self._job: Job | None = None
        with ui.element("div").classes("view"):
            with ui.element("div").classes("controls"):
                self._draw_controls(given)
                ui.label("Nothing of a recording leaves this server, which forgets it after a time.").classes(
                    "hint"
                )
            with ui.element("div").classes("result").props("id=answer"):
                self._problem = ui.label().classes("problem").props("role=alert")
                with ui.element("div").classes("job") as self._work:
                    self._words = ui.label().props("role=status aria-live=polite")
                    ui.button("Cancel", on_click=self._cancel).props("outline no-caps")
                self._document = DocumentElement()
                self._links = ui.html("", sanitize=False).classes("reproduce")
        self._problem.set_visibility(False)
        self._work.set_visibility(False)
        self._links.set_visibility(False)
        if self._id:
            verb = _FORECAST if self._device.value or self._changes.value else _EXPLAIN
            ui.timer(0, lambda: self._ask(verb), once=True)

    def _draw_controls(self, given: dict[str, str]) -> None:
        ui.upload(
            label="Recording: JSON, gzip or tar",
            auto_upload=True,
            max_file_size=self._desk.uploads.upload_bytes,
            on_upload=self._keep,
            on_rejected=lambda: self._say(
                f"At most {format_bytes(self._desk.uploads.upload_bytes)} of one recording are taken."
            ),
        ).classes("recording").props('flat bordered aria-label="Recording"')
        explain = ui.button("Where its time went", on_click=lambda: self._ask(_EXPLAIN))
        explain.props("unelevated no-caps")
        self._device = NameSelect("devices", "Another device", lambda: None)
        self._device.set(given.get("device", ""))
        self._changes = ui.input(
            "What if", value=given.get("what_if", ""), placeholder="speed:gemm=2, overlap"
        )
        self._changes.props("outlined dense stack-label autocomplete=off")
        ui.label(
            "speed:NAME=K (operators, kernels K times faster), host=K, communication=K, overlap, graphs"
        ).classes("hint")
        forecast = ui.button("Forecast it so", on_click=lambda: self._ask(_FORECAST))
        forecast.props("unelevated no-caps")

    async def _keep(self, event: UploadEventArguments) -> None:
        try:
            upload = await self._desk.uploads.keep(event.file.iterate())
        except ProblemError as error:
            self._say(error.problem.detail)
            return
        self._id = upload.id
        self._ask(_EXPLAIN)

    def _plain(self, verb: str) -> dict[str, object]:
        if verb == _EXPLAIN:
            return {}
        changes = [part.strip() for part in (self._changes.value or "").split(",")]
        found: dict[str, object] = {
            "device": self._device.value,
            "what_if": [part for part in changes if part],
        }
        return {name: value for name, value in found.items() if value}

    def _ask(self, verb: str) -> None:
        self._cancel()
        if not self._id:
            self._say("Upload a recording first.")
            return
        plain, uploads = self._plain(verb), self._desk.uploads
        said = {"id": self._id, "device": plain.get("device", ""), "what_if": ", ".join(_listed(plain))}
        ui.navigate.history.replace(
            f"/traces?{urlencode({name: text for name, text in said.items() if text})}"
        )
        try:
            asking, files = read_asking(uploads, verb, uploads.find(self._id), plain)
            self._job = self._desk.jobs.start(asking, _KINDS, files)
        except (PerfcastError, ProblemError) as error:
            self._say(error.problem.detail if isinstance(error, ProblemError) else str(error))
            return
        self._say("")
        background_tasks.create(self._follow(self._job), context=ui.context.client)

    async def _follow(self, job: Job) -> None:
        client = ui.context.client
        self._work.set_visibility(True)
        while job.state not in ENDED:
            self._words.set_text(job.message or "Waiting")
            await asyncio.sleep(_LOOK_SECONDS)
            if client.is_deleted:
                self._desk.jobs.cancel(job.id)
                return
        if job is not self._job:
            return
        self._work.set_visibility(False)
        if job.state == "done":
            rendered = await run.io_bound(_rendered, job.reply())
            if rendered is not None:
                self._document.show(rendered)
                self._links.set_content(_links_of(job))
                self._links.set_visibility(True)
        else:
            problem = job.problem or Problem(status=409, detail="Cancelled.")
            self._say(problem.detail)

    def _cancel(self) -> None:
        if self._job is not None:
            self._desk.jobs.cancel(self._job.id)

    def _say(self, text: str) -> None:
        self._problem.set_text(text)
        self._problem.set_visibility(bool(text))


def _listed(plain: dict[str, object]) -> list[str]:
    found = plain.get("what_if", [])
    return [str(one) for one in found] if isinstance(found, list) else []


def _rendered(reply: Reply) -> Rendered:
    return render_document(reply.document)


def _links_of(job: Job) -> str:
    """The command on a file of one's own, and the answer as files."""
    verb = job.asking.question.verb
    options = "".join(
        f" --{name.replace('_', '-')} {escape(str(one))}"
        for name, value in job.asking.plain.items()
        if name not in job.files
        for one in (value if isinstance(value, list) else [value])
    )
    links = " ".join(
        f'<a href="/api/v1/jobs/{job.id}/result?as={kind}" download>{text}</a>'
        for kind, text in (("json", "JSON"), ("html", "HTML report"))
    )
    return (
        f'<div class="code"><span>Command line, with your file</span><pre id="perfcast-command" tabindex="0">'
        f'perfcast {verb} FILE{options}</pre></div><p class="links">{links}</p>'
    )


def _build(query: str, desk: Desk) -> None:
    Traces(query, desk)


TRACES = View(
    name="traces",
    title="Traces",
    icon="timeline",
    lead="Upload a recording of PyTorch's profiler: where its time went, and what it would be elsewhere.",
    build=_build,
)
