"""Where questions are answered: from what is kept, together with who asks the same, or by a process."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from perfcast.server.cache import Cache
from perfcast.server.jobs import Jobs
from perfcast.server.problems import refuse
from perfcast.server.processes.child import Bounds
from perfcast.server.processes.handle import Process, Reply
from perfcast.server.processes.message import Asked, Kind
from perfcast.server.questions import Asking, read_question
from perfcast.server.uploads import Uploads

if TYPE_CHECKING:
    from perfcast.server.settings import Settings

_RETRY_SECONDS = 2
_NICENESS = 2


class Desk:
    """Answers questions; used from one event loop.

    Attributes:
        cache: Answers that are kept.
        jobs: Questions that take long.
        uploads: Recordings that users uploaded.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.jobs = Jobs(settings)
        self.uploads = Uploads(settings)
        self.cache = Cache(settings.cached_bytes)
        self._bounds = Bounds(memory_bytes=settings.answer_bytes, niceness=_NICENESS)
        self._idle: asyncio.LifoQueue[Process | None] = asyncio.LifoQueue()
        for _ in range(settings.workers):
            self._idle.put_nowait(None)
        self._all: set[Process] = set()
        self._threads = ThreadPoolExecutor(settings.workers, thread_name_prefix="perfcast-desk")
        self._being_answered: dict[str, asyncio.Task[Reply]] = {}

    @property
    def num_being_answered(self) -> int:
        """Different questions that are being answered, or wait for it."""
        return len(self._being_answered)

    async def ask(self, verb: str, plain: Mapping[str, object], kinds: tuple[Kind, ...] = ("json",)) -> Reply:
        """The answer to a question as it came over HTTP or from the page.

        Raises:
            InputError: The question cannot be asked.
            ProblemError: It has no answer, or not within the bounds.
        """
        return await self.answer(read_question(verb, plain), kinds)

    async def answer(
        self,
        asking: Asking,
        kinds: tuple[Kind, ...] = ("json",),
        *,
        files: Mapping[str, object] | None = None,
    ) -> Reply:
        """The answer to a question that was read: kept, being made, or made now.

        Args:
            files: Options that the server fills in, of which the question says nothing.

        Raises:
            ProblemError: As of ``ask``.
        """
        key = f"{','.join(kinds)} {asking.key} {files or ''}"
        kept = self.cache.find(key)
        if kept is not None:
            return kept
        task = self._being_answered.get(key)
        if task is None:
            task = asyncio.create_task(self._make(asking, kinds, files or {}))
            self._being_answered[key] = task
            task.add_done_callback(lambda done: self._made(key, done))
        return await asyncio.shield(task)  # whoever goes away leaves the others their answer

    def _made(self, key: str, task: asyncio.Task[Reply]) -> None:
        del self._being_answered[key]
        if not task.cancelled() and task.exception() is None:
            self.cache.keep(key, task.result())

    async def _make(self, asking: Asking, kinds: tuple[Kind, ...], files: Mapping[str, object]) -> Reply:
        seconds = self._settings.answer_seconds
        try:
            async with asyncio.timeout(seconds):
                process = await self._idle.get()
        except TimeoutError:
            said = "All processes are busy; come again."
            raise refuse(503, said, retry_after_seconds=_RETRY_SECONDS) from None
        plain = {name: value for name, value in asking.plain.items() if name not in files}
        asked = Asked(verb=asking.question.verb, plain=plain, kinds=kinds, files=files)
        try:
            if process is None or not process.is_alive:
                process = await self._start()
            ask = partial(process.ask, asked, seconds=math.ceil(seconds))
            return await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        finally:
            if process is not None and not process.is_alive:
                self._all.discard(process)
                process = None
            self._idle.put_nowait(process)

    async def _start(self) -> Process:
        most = self._settings.result_bytes
        loop = asyncio.get_running_loop()
        process = await loop.run_in_executor(self._threads, lambda: Process(self._bounds, most_bytes=most))
        self._all.add(process)
        return process

    async def open(self) -> None:
        """Start the processes, so that the first questions find them."""
        waiting = [self._idle.get_nowait() for _ in range(self._settings.workers)]
        for _ in waiting:
            self._idle.put_nowait(await self._start())

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        self.jobs.close()
        self.uploads.close()
        for process in self._all:
            process.end()
        self._threads.shutdown(wait=False, cancel_futures=True)
