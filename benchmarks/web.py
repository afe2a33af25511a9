"""How fast the API answers, and whether it does so for long: python benchmarks/web.py [--seconds 60].

Three figures, each of a server of its own in another process, asked over HTTP by this one. Beside each stands
the server's processor time of an answer: what it would take on a machine that does nothing else.

* a warm forecast: median of one client's times, by closed form (every question another) and of one device
  from a kept capture (every question another device);
* questions by closed form in a second: eight clients, every question another, so that none is answered from
  what is kept;
* 50 users for a minute, each asking, looking, asking again (half of the questions were asked before): errors,
  and the memory of all processes of the server in the second and the last quarter of the time.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import httpx
import psutil

#: A user looks at an answer before asking again, in seconds.
THINKING_SECONDS = (0.2, 1.0)
MEGA = 1e6
USERS = 50
DEVICES = ("h100-sxm", "h200", "a100-sxm-80gb", "a100-sxm-40gb", "b200", "l40s", "l4", "v100-sxm-32gb")


@dataclass(slots=True)
class Outcome:
    """What clients saw."""

    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    processor_seconds: float = 0.0


@contextmanager
def server() -> Iterator[tuple[str, psutil.Process]]:
    """A server and its process."""
    command = [
        sys.executable,
        "-m",
        "perfcast",
        "web",
        "--port",
        "0",
        "--no-page",
        "--requests-in-flight",
        "128",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found is not None
        try:
            yield found[0].rstrip("/"), psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait()


def closed_form_questions() -> list[dict[str, object]]:
    """All different, in an order that is the same in every run."""
    axes = itertools.product(
        ("llama3-8b", "llama3-70b"),
        ("dgx-h100:64", "dgx-h100:128", "dgx-a100:64"),
        (2, 4, 8),
        (1, 2, 4),
        (0, 1),
        (128, 192, 256, 320, 384, 512, 640, 768),
        (2048, 4096, 6144, 8192),
    )
    found: list[dict[str, object]] = [
        {
            "model": model,
            "cluster": cluster,
            "plan": f"tp={tp},pp={pp},zero={zero}",
            "batch_size": batch,
            "sequence_length": length,
            "closed_form": True,
        }
        for model, cluster, tp, pp, zero, batch, length in axes
    ]
    random.Random(0).shuffle(found)
    return found


def one_device_questions() -> list[dict[str, object]]:
    """Two captures on many devices."""
    return [
        {"model": model, "device": device, "mode": "train", "batch_size": 4, "sequence_length": 1024}
        for model in ("gpt2", "gpt2-large")
        for device in DEVICES
    ]


async def ask(client: httpx.AsyncClient, question: dict[str, object], outcome: Outcome) -> None:
    """One question; what takes long or fails is noted."""
    start = time.perf_counter()
    try:
        response = await client.post("/api/v1/predict", json=question)
        if response.status_code != 200:
            outcome.errors.append(f"{response.status_code} {response.text[:200]}")
    except httpx.HTTPError as error:
        outcome.errors.append(repr(error))
    outcome.seconds.append(time.perf_counter() - start)


async def warm(address: str, questions: list[dict[str, object]], outcome: Outcome) -> None:
    """One client, one question after another."""
    async with httpx.AsyncClient(base_url=address, timeout=60) as client:
        for question in questions:
            await ask(client, question, outcome)


async def busy(
    address: str, questions: Iterator[dict[str, object]], seconds: float, clients: int, outcome: Outcome
) -> None:
    """As many questions as are answered."""
    until = time.monotonic() + seconds

    async def run(client: httpx.AsyncClient) -> None:
        while time.monotonic() < until:
            await ask(client, next(questions), outcome)

    async with httpx.AsyncClient(base_url=address, timeout=60) as client:
        await asyncio.gather(*(run(client) for _ in range(clients)))


async def users(
    address: str,
    questions: list[dict[str, object]],
    seconds: float,
    process: psutil.Process,
    outcome: Outcome,
) -> list[int]:
    """Users at a time; the server's memory every second, in bytes."""
    memory: list[int] = []
    until = time.monotonic() + seconds

    async def use(client: httpx.AsyncClient, draw: random.Random) -> None:
        asked = [draw.choice(questions)]
        while time.monotonic() < until:
            question = draw.choice(asked) if draw.random() < 0.5 else draw.choice(questions)
            asked.append(question)
            await ask(client, question, outcome)
            await asyncio.sleep(draw.uniform(*THINKING_SECONDS))

    async def watch() -> None:
        while time.monotonic() < until:
            memory.append(memory_of(process))
            await asyncio.sleep(1.0)

    limits = httpx.Limits(max_connections=USERS)
    async with httpx.AsyncClient(base_url=address, timeout=60, limits=limits) as client:
        await asyncio.gather(watch(), *(use(client, random.Random(seed)) for seed in range(USERS)))
    return memory


def family(process: psutil.Process) -> list[psutil.Process]:
    """It and all that it started."""
    return [process, *process.children(recursive=True)]


def memory_of(process: psutil.Process) -> int:
    """Of it and all that it started, each page counted once (PSS), in bytes."""
    found = 0
    for one in family(process):
        with suppress(psutil.NoSuchProcess):
            found += one.memory_full_info().pss
    return found


def processor_seconds(process: psutil.Process) -> float:
    """Of it and all that it started, until now."""
    found = 0.0
    for one in family(process):
        with suppress(psutil.NoSuchProcess):
            times = one.cpu_times()
            found += times.user + times.system
    return found


@contextmanager
def costed(process: psutil.Process, outcome: Outcome) -> Iterator[None]:
    """Notes the processor time that the server takes meanwhile."""
    before = processor_seconds(process)
    yield
    outcome.processor_seconds += processor_seconds(process) - before


def said(outcome: Outcome) -> str:
    """Median and 95th percentile, processor time, and what went wrong."""
    times = sorted(outcome.seconds)
    late = times[int(0.95 * (len(times) - 1))]
    cost = outcome.processor_seconds / len(times)
    text = (
        f"median {statistics.median(times) * 1e3:.1f} ms, 95 % within {late * 1e3:.1f} ms, "
        f"{cost * 1e3:.1f} ms of a processor each"
    )
    return text + (f"; {len(outcome.errors)} errors: {outcome.errors[0]}" if outcome.errors else "; no error")


def main() -> None:
    """Print the three."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    questions = closed_form_questions()
    with server() as (address, process):
        asyncio.run(warm(address, questions[:40], Outcome()))
        outcome = Outcome()
        with costed(process, outcome):
            asyncio.run(warm(address, questions[40:140], outcome))
        print(f"warm forecast, closed form: {said(outcome)}")
        devices = one_device_questions()
        asyncio.run(
            warm(
                address, [question for question in devices if question["device"] == DEVICES[0]] * 2, Outcome()
            )
        )
        outcome = Outcome()
        with costed(process, outcome):
            others = [question for question in devices if question["device"] != DEVICES[0]]
            asyncio.run(warm(address, others, outcome))
        print(f"warm forecast, one device:  {said(outcome)}")
    with server() as (address, process):
        stream, outcome = iter(questions), Outcome()
        asyncio.run(busy(address, stream, 3.0, 8, Outcome()))
        with costed(process, outcome):
            asyncio.run(busy(address, stream, 10.0, 8, outcome))
        print(f"closed form, different questions: {len(outcome.seconds) / 10:.0f} a second; {said(outcome)}")
    with server() as (address, process):
        outcome = Outcome()
        with costed(process, outcome):
            memory = asyncio.run(users(address, questions, given.seconds, process, outcome))
        quarter = len(memory) // 4
        second, last = (
            statistics.mean(part) / MEGA for part in (memory[quarter : 2 * quarter], memory[-quarter:])
        )
        print(
            f"{USERS} users for {given.seconds:g} s: {len(outcome.seconds)} answers, {said(outcome)}; "
            f"memory {second:.0f} MB in the second quarter, {last:.0f} MB in the last"
        )


if __name__ == "__main__":
    main()
