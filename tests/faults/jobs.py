"""Jobs of the page, killed at random moments: the process of each, once, while it answers."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import replace

from faults.kills import Count
from perfcast.server.jobs import ENDED, Job, Jobs
from perfcast.server.settings import Settings

#: Played event by event: some tenths of a second.
ASKED = {
    "model": "llama3-8b",
    "cluster": "dgx-h100:16",
    "plan": "tp=2,pp=4",
    "batch_size": 256,
    "micro_batch_size": 1,
}
_POLL_SECONDS = 0.005
_MOST_SECONDS = 300.0


def kill_jobs(kills: int, seed: int, tell: Callable[[Count], None] = lambda count: None) -> Count:
    """Ask the same so often, and kill whoever answers.

    Raises:
        AssertionError: A job failed, was answered twice or otherwise than one that nobody disturbed.
    """
    return asyncio.run(_kill_jobs(kills, random.Random(seed), tell))


async def _kill_jobs(kills: int, rng: random.Random, tell: Callable[[Count], None]) -> Count:
    jobs, count = Jobs(replace(Settings(), jobs_running=1)), Count()
    try:
        wanted = (await _ended(_submit(jobs))).reply().json
        job = await _ended(_submit(jobs))
        seconds = (job.ended_at or 0.0) - (job.started_at or 0.0)
        while count.hits < kills:
            job = _submit(jobs)
            killed = await _kill(job, rng.uniform(0.0, seconds))
            found = await _ended(job)
            assert found.state == "done", found.problem
            assert found.reply().json == wanted
            if killed is not None and _pid(job) != killed:  # another process answered: this one had not
                count.by_clock += 1
                count.compared += 1
                tell(count)
            else:
                count.too_late += 1
    finally:
        jobs.close()
    return count


def _submit(jobs: Jobs) -> Job:
    return jobs.submit("predict", ASKED, ("json",))


async def _kill(job: Job, after: float) -> int | None:
    """The process that was killed while its job ran; None where it had ended before."""
    while job.state == "waiting":
        await asyncio.sleep(_POLL_SECONDS)
    until = time.monotonic() + after
    while time.monotonic() < until and job.state not in ENDED:
        await asyncio.sleep(_POLL_SECONDS)
    if job.state in ENDED:
        return None
    pid = _pid(job)
    os.kill(pid, signal.SIGKILL)
    return pid


def _pid(job: Job) -> int:
    assert job._process is not None
    pid = job._process._process.pid
    assert pid is not None
    return pid


async def _ended(job: Job) -> Job:
    until = time.monotonic() + _MOST_SECONDS
    while job.state not in ENDED:
        assert time.monotonic() < until, f"the job is {job.state} after {_MOST_SECONDS:g} s"
        await asyncio.sleep(_POLL_SECONDS)
    return job
