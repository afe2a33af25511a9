"""The API in one process, its desk answering at once, and what the page reads off addresses and fields."""

from __future__ import annotations

import asyncio
import json
import random
from functools import cache, partial
from typing import Any

from fuzz.documents import MARK
from fuzz.questions import GOOD
from fuzz.questions import expand as expand_question
from fuzz.questions import seeds as question_seeds
from fuzz.target import Draw, Target
from hostile_requests import VALID, hostile_request, with_body
from perfcast.server.app import build_app
from perfcast.server.desk import Desk
from perfcast.server.jobs import Job
from perfcast.server.page.fields import fields_of, read_entry
from perfcast.server.processes.handle import Reply
from perfcast.server.questions import ADDRESSES, Asking
from perfcast.server.settings import Settings
from perfcast.server.uploads import Upload
from perfcast.verbs.question import question_of
from perfcast.verbs.spelled import address_of, command_line, python_call, question_of_address

MOST_BODY = 70_000


class _QuickDesk(Desk):
    """One that answers every question that may be asked with nothing, and keeps and starts nothing."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.jobs.start = self._start_job  # type: ignore[method-assign]
        self.uploads.keep = self._keep  # type: ignore[method-assign]

    async def _make(self, asking: Asking, kinds: Any, files: Any) -> Reply:
        return Reply(dict.fromkeys(kinds, b"{}"))

    async def open(self) -> None:
        """No process is started."""

    def _start_job(self, asking: Asking, kinds: Any, files: Any = None) -> Job:
        return Job(asking=asking, kinds=kinds, files=files or {})

    async def _keep(self, blocks: Any) -> Upload:
        from pathlib import Path

        size = 0
        async for block in blocks:
            size += len(block)
        return Upload("0" * 32, Path("recording.json"), size)


@cache
def _app() -> Any:
    settings = Settings(with_page=False, requests_in_flight=10_000)
    app = build_app(settings)
    app.state.desk = _QuickDesk(settings)
    return app


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def _scope(head: bytes) -> dict[str, Any] | None:
    """What a server of HTTP would make of a head; None of what it would not let through."""
    first, *lines = head.split(b"\r\n")
    words = first.split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1.") or not words[1].isascii():
        return None
    path, _, query = words[1].partition(b"?")
    pairs = [line.partition(b":") for line in lines if b":" in line]
    headers = [(name.strip().lower(), value.strip()) for name, _, value in pairs]
    if not words[0].isalpha() or b"\x00" in head:
        return None
    from urllib.parse import unquote

    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": words[0].decode().upper(),
        "scheme": "http",
        "path": unquote(path.decode()),
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 5),
        "server": ("127.0.0.1", 8000),
        "state": {},
    }


async def _ask(scope: dict[str, Any], body: bytes) -> tuple[int, list[Any], bytes]:
    waiting = [{"type": "http.request", "body": body, "more_body": False}]
    status, headers, parts = 0, [], []

    async def receive() -> dict[str, Any]:
        return waiting.pop() if waiting else {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status, headers = message["status"], message["headers"]
        else:
            parts.append(message.get("body", b""))

    await _app()(scope, receive, send)
    return status, headers, b"".join(parts)


def _asked(data: bytes) -> object:
    """An answer with a status that is not 500, whose problem is JSON and whose headers are whole."""
    head, _, body = data.partition(b"\r\n\r\n")
    scope = _scope(head)
    if scope is None:
        return None
    status, headers, said = _loop().run_until_complete(_ask(scope, body[:MOST_BODY]))
    assert status not in (0, 500), f"{status}: {said[:500]!r}"
    assert not any(b"\n" in value or b"\r" in value for _, value in headers), headers
    held = dict(headers)
    assert held.get(b"x-content-type-options") == b"nosniff", headers
    if status >= 400 and held.get(b"content-encoding") is None and scope["method"] != "HEAD":
        problem = json.loads(said)
        assert problem["status"] == status
        assert "Traceback" not in said.decode()
    return status


def _expand(data: bytes) -> bytes:
    """A request of nobody honest, or a question that is nearly good, in bytes."""
    if not data.startswith(MARK):
        return data
    draw = Draw(data[1:])
    if draw.chance(60):
        address = draw.choice(list(ADDRESSES.values()))
        verb = next(verb for verb, place in ADDRESSES.items() if place == address)
        body = expand_question(verb, MARK + draw.data[draw.place :])
        if draw.chance(20):
            body = b'{"verb": "%s", "question": %s}' % (address.encode(), body)
            address = "jobs"
        return with_body(f"/api/v1/{address}", body)
    return hostile_request(random.Random(data))


def _seeds() -> list[bytes]:
    drawn = random.Random(0)
    good = with_body("/api/v1/predict", json.dumps(VALID).encode())
    export = b"GET /api/v1/predict/export?model=llama3-8b&as=json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    health = b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    listed = b"GET /api/v1/catalog/devices/h100-sxm HTTP/1.1\r\nHost: localhost\r\n\r\n"
    upload = with_body("/api/v1/traces", b"{}")
    return [good, export, health, listed, upload, *(MARK + drawn.randbytes(60) for _ in range(30))]


# ---- addresses of the page, and its fields ------------------------------------------------------


def _address(verb: str, data: bytes) -> object:
    """A query string: what is read of it is spelled again, and reads as the same."""
    asked = question_of_address(verb, data.decode("utf-8", "replace"))
    assert question_of_address(verb, address_of(asked)) == asked
    command_line(asked)
    python_call(asked)
    return asked


def _address_expand(verb: str, data: bytes) -> bytes:
    if not data.startswith(MARK):
        return data
    try:
        return address_of(question_of(verb, json.loads(expand_question(verb, data)))).encode()
    except (ValueError, RecursionError):
        return data[1:]
    except Exception as error:  # a question that is refused is no address
        return str(error).encode("utf-8", "replace")[:200]


def _address_seeds(verb: str) -> list[bytes]:
    good = [address_of(question_of(verb, one)).encode() for one in GOOD[verb]]
    return [*good, *(seed for seed in question_seeds(verb) if seed.startswith(MARK))]


def _entered(data: bytes) -> object:
    """What is typed into each field of a form becomes plain data or stays text."""
    text = data.decode("utf-8", "replace")
    for verb in ADDRESSES:
        for field in fields_of(verb).values():
            read_entry(field, text)
    return None


WORDS = (
    "/api/v1/",
    "predict",
    "jobs",
    "traces",
    "catalog",
    "/export?",
    "as=json",
    "format=html",
    "HTTP/1.1\r\n",
    "Host: ",
    "Content-Type: application/json",
    "\r\n\r\n",
    '{"model":',
    "null",
    "1e999",
    "\\ud800",
    "%00",
    "%2f",
    "..",
    "DELETE",
)

TARGETS = (
    Target(name="api/requests", run=_asked, seeds=_seeds, words=WORDS, expand=_expand, usual=40),
    Target(
        name="api/fields",
        run=_entered,
        seeds=lambda: [b"tp=8, replicas=1,2", b"1e999", b"15T"],
        words=("=", ",", "\x00"),
    ),
    *(
        Target(
            name=f"address/{place}",
            run=partial(_address, verb),  # type: ignore[arg-type]
            seeds=partial(_address_seeds, verb),
            words=(
                "model=",
                "&",
                "=",
                "%00",
                "+",
                "%e2%80",
                "plan=tp%3D2",
                "batch_size=",
                "1e999",
                "9" * 60,
                "true",
            ),
            expand=partial(_address_expand, verb),
        )
        for verb, place in ADDRESSES.items()
    ),
)
