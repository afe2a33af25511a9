"""Jobs: questions that take long, each in a process of its own, with progress and an end on demand."""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from perfcast.server.problems import Problem, ProblemError, problem_of, refuse
from perfcast.server.processes.child import Bounds
from perfcast.server.processes.handle import KilledError, Process, Reply
from perfcast.server.processes.message import Asked, Kind
from perfcast.server.questions import Asking, read_question

if TYPE_CHECKING:
    from perfcast.server.settings import Settings

State = Literal["waiting", "running", "done", "failed", "cancelled"]
#: States in which nothing happens any more.
ENDED: tuple[State, ...] = ("done", "failed", "cancelled")
_RETRY_SECONDS = 10
_NICENESS = 8


@dataclass(slots=True, kw_only=True)
class Job:
    """One of them.

    Attributes:
        id: Nobody guesses it; who has it may see and end the job.
        asking: What is asked.
        state: Where it stands.
        progress: Share of the work that is done; None where that is not known.
        message: What is being done.
        problem: Why it failed.
        created_at, started_at, ended_at: Seconds since 1970; None of what has not happened.
    """

    id: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    asking: Asking
    kinds: tuple[Kind, ...]
    files: Mapping[str, object] = field(default_factory=dict)
    state: State = "waiting"
    progress: float | None = None
    message: str = ""
    problem: Problem | None = None
    created_at: float = field(default_factory=time.time)
    started_at: float | None = None
    ended_at: float | None = None
    _ended: float = math.inf  # by the clock that nobody sets
    _reply: Reply | None = None
    _process: Process | None = None

    def reply(self) -> Reply:
        """Its answer.

        Raises:
            ProblemError: It has none, or not yet (409).
        """
        if self.problem is not None:
            raise ProblemError(self.problem)
        if self._reply is None:
            raise refuse(409, f"The job is {self.state}; it has no result.")
        return self._reply

    def tell(self, share: float | None, text: str) -> None:
        """Take note of its progress."""
        self.progress = min(1.0, max(0.0, share)) if share is not None and math.isfinite(share) else None
        self.message = text

    @property
    def seconds_since_end(self) -> float:
        """How long ago it ended, however the system's clock was set meanwhile; below 0: it has not."""
        return time.monotonic() - self._ended

    def end(self, state: State, reply: Reply | None = None, problem: Problem | None = None) -> None:
        """It is over, unless it already was."""
        if self.state in ENDED:
            return
        self.state, self._reply, self.problem, self.ended_at = state, reply, problem, time.time()
        self._ended = time.monotonic()
        self.progress = 1.0 if state == "done" else self.progress
        if self._process is not None:
            self._process.end()

    def run(self, process: Process) -> None:
        """It begins."""
        self.state, self.started_at, self._process = "running", time.time(), process


class Jobs:
    """All jobs of a server; used from one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        cpu_seconds = 2 * math.ceil(settings.job_seconds)
        self._bounds = Bounds(memory_bytes=settings.job_bytes, cpu_seconds=cpu_seconds, niceness=_NICENESS)
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Semaphore(settings.jobs_running)
        self._threads = ThreadPoolExecutor(settings.jobs_running, thread_name_prefix="perfcast-job")

    def submit(
        self,
        verb: str,
        plain: Mapping[str, object],
        kinds: tuple[Kind, ...] = ("document", "json"),
    ) -> Job:
        """A job for a question as it came over HTTP or from the page.

        Raises:
            InputError: The question cannot be asked.
            ProblemError: The queue is full (429).
        """
        return self.start(read_question(verb, plain), kinds)

    def start(
        self, asking: Asking, kinds: tuple[Kind, ...], files: Mapping[str, object] | None = None
    ) -> Job:
        """A job for a question that was read.

        Args:
            files: Options that the server fills in.

        Raises:
            ProblemError: The queue is full (429).
        """
        self._forget()
        settings = self._settings
        if self.count("waiting", "running") >= settings.jobs_running + settings.jobs_waiting:
            detail = f"{settings.jobs_running} jobs run and {settings.jobs_waiting} wait; come again."
            raise refuse(429, detail, retry_after_seconds=_RETRY_SECONDS)
        job = Job(asking=asking, kinds=kinds, files=files or {})
        self._jobs[job.id] = job
        task = asyncio.create_task(self._run(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job

    def count(self, *states: State) -> int:
        """Jobs in these states."""
        return sum(job.state in states for job in self._jobs.values())

    def find(self, name: str) -> Job:
        """A job by its id.

        Raises:
            ProblemError: There is none, or none any more (404).
        """
        self._forget()
        if name not in self._jobs:
            raise refuse(404, "There is no such job; finished ones are kept for a time only.")
        return self._jobs[name]

    def cancel(self, name: str) -> Job:
        """End a job; one that has ended stays as it is.

        Raises:
            ProblemError: As of ``find``.
        """
        job = self.find(name)
        job.end("cancelled")
        return job

    def close(self) -> None:
        """End all of them."""
        for job in self._jobs.values():
            job.end("cancelled")
        for task in self._tasks:
            task.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, job: Job) -> None:
        async with self._turn:
            if job.state != "waiting":
                return
            loop = asyncio.get_running_loop()
            try:
                reply = await loop.run_in_executor(self._threads, lambda: self._answer(job, loop))
            except Exception as error:
                job.end("failed", problem=problem_of(error))
            else:
                job.end("done", reply)

    def _answer(self, job: Job, loop: asyncio.AbstractEventLoop) -> Reply:
        """In a thread: by a process, and by another one where that was killed."""
        try:
            return self._answer_once(job, loop)
        except KilledError:
            if job.state in ENDED:
                raise
            return self._answer_once(job, loop)

    def _answer_once(self, job: Job, loop: asyncio.AbstractEventLoop) -> Reply:
        """A process from its start to its end."""
        process = Process(self._bounds, most_bytes=self._settings.result_bytes)
        try:
            loop.call_soon_threadsafe(self._begun, job, process)
            plain = {name: value for name, value in job.asking.plain.items() if name not in job.files}
            asked = Asked(
                verb=job.asking.question.verb,
                plain=plain,
                kinds=job.kinds,
                files=job.files,
                with_progress=True,
            )
            return process.ask(
                asked,
                seconds=self._settings.job_seconds,
                on_progress=lambda share, text: _tell(loop, job, share, text),
            )
        finally:
            process.end()

    def _begun(self, job: Job, process: Process) -> None:
        if job.state not in ENDED:
            job.run(process)
        else:  # cancelled while its process started
            process.end()

    def _forget(self) -> None:
        """Finished jobs that are too old or too many."""
        ended = [job for job in self._jobs.values() if job.state in ENDED]
        too_many = max(0, len(ended) - self._settings.jobs_kept)
        by_end = sorted(ended, key=lambda job: job.seconds_since_end, reverse=True)
        for position, job in enumerate(by_end):
            if position < too_many or job.seconds_since_end > self._settings.job_kept_seconds:
                del self._jobs[job.id]


def _tell(loop: asyncio.AbstractEventLoop, job: Job, share: float | None, text: str) -> None:
    loop.call_soon_threadsafe(job.tell, share, text)
