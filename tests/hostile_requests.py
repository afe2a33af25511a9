"""Requests that nobody honest makes, drawn at random, and what becomes of a server that gets many.

Alone: ``python tests/hostile_requests.py [NUMBER]`` (10,000) starts a server and asks it all of them.
"""

from __future__ import annotations

import asyncio
import json
import random
import string
import sys
from collections import Counter
from collections.abc import Callable
from urllib.parse import urlsplit

VALID = {"model": "llama3-8b", "cluster": "dgx-h100:8", "plan": "tp=2", "batch_size": 8, "closed_form": True}
OPTIONS = (
    *VALID,
    "device",
    "devices",
    "mode",
    "dtype",
    "weights",
    "cost_model",
    "framework",
    "tokens",
    "host",
)
VERBS = ("predict", "memory", "search", "scale", "serving", "mesh-cost", "shard", "jobs", "traces")
#: Those that a server may not read, and others that are none.
PATHS = (
    "/etc/passwd",
    "../../../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "....//....//etc/passwd",
    "%00",
    "C:\\windows\\win.ini",
    "file:///etc/passwd",
    "~/.ssh/id_rsa",
    "model.py:build",
    "x" * 3000,
)
WAIT_SECONDS = 20.0


def words(draw: random.Random) -> str:
    return "".join(draw.choices(string.printable + "\u202e\u0000é中", k=draw.randrange(0, 60)))


def value(draw: random.Random, depth: int = 0) -> object:
    """Anything that JSON has, and numbers that no option has."""
    plain: list[Callable[[], object]] = [
        lambda: words(draw),
        lambda: draw.choice(PATHS),
        lambda: draw.choice((0, -1, 1, 2**31, 2**53, 2**63, 10**40, -(2**70))),
        lambda: draw.choice((1e308, -1e-308, 0.1, 1e-320)),
        lambda: draw.choice((True, False, None)),
        lambda: draw.choice(list(VALID.values())),
        lambda: f"tp={draw.randrange(-3, 10**6)},pp={draw.choice((0, 1, 3, 10**9))}",
        lambda: f"dgx-h100:{draw.choice((0, -8, 10**12, 7))}",
    ]
    if depth < 3:
        plain.append(lambda: [value(draw, depth + 1) for _ in range(draw.randrange(4))])
        plain.append(lambda: {words(draw): value(draw, depth + 1) for _ in range(draw.randrange(4))})
    return draw.choice(plain)()


def question(draw: random.Random) -> bytes:
    """A question with wrong values, wrong options, or both."""
    found: dict[str, object] = dict(VALID) if draw.random() < 0.6 else {}
    for _ in range(draw.randrange(1, 4)):
        found[draw.choice((*OPTIONS, words(draw)))] = value(draw)
    return json.dumps(found).encode()


def spoilt(draw: random.Random) -> bytes:
    """JSON that is none any more, or never was."""
    text = bytearray(question(draw))
    for _ in range(draw.randrange(1, 6)):
        text[draw.randrange(len(text))] = draw.randrange(256)
    others = (b"[" * 50_000, b'{"a":' * 5_000, b"1" * 6_000, b'{"model":NaN}', b"\xff\xfe", b"", bytes(text))
    return draw.choice((*others, bytes(text), bytes(text)))


def with_body(path: str, body: bytes, *headers: str, media_type: str = "application/json") -> bytes:
    head = (f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Type: {media_type}", *headers)
    length = f"Content-Length: {len(body)}"
    return "\r\n".join((*head, length, "Connection: close", "", "")).encode("utf-8", "replace") + body


def asked(draw: random.Random) -> bytes:
    return with_body(f"/api/v1/{draw.choice(VERBS)}", draw.choice((question, spoilt))(draw))


def travelled(draw: random.Random) -> bytes:
    """An address that leaves its place."""
    start = draw.choice(
        ("", "/api/v1/jobs/", "/api/v1/traces/", "/api/v1/catalog/clusters/", "/api/v1/", "/")
    )
    path = (start + draw.choice(PATHS)).replace(" ", "%20").replace("\x00", "%00")
    method = draw.choice(("GET", "DELETE", "POST", "PUT", "TRACE", "CONNECT", "PROPFIND", "G\x00T"))
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()


def injected(draw: random.Random) -> bytes:
    """Heads that say things twice, end lines where none ends, or go on for long."""
    body = json.dumps(VALID).encode()
    header = draw.choice(
        (
            "Host: evil.example",
            "X-A: b\r\nSet-Cookie: a=b",
            "Content-Length: 5",
            "Transfer-Encoding: chunked",
            "Content-Length: -1",
            "Content-Length: 99999999999999999999",
            "X: " + "y" * 70_000,
            "Origin: http://evil.example",
            "Authorization: Bearer " + words(draw).replace("\n", " ").replace("\r", " "),
            "Cookie: " + "a=b; " * 500,
            "Expect: 100-continue",
            "Content-Encoding: gzip",
            "X-Forwarded-Prefix: http://evil.example",
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: A\r\nSec-WebSocket-Version: 13",
        )
    )
    return with_body("/api/v1/predict", body, header)


def short(draw: random.Random) -> bytes:
    """Less than its head promises, or nothing that is HTTP."""
    if draw.random() < 0.5:
        return with_body("/api/v1/predict", b"x" * 50)[: draw.randrange(10, 120)]
    return draw.randbytes(draw.randrange(1, 400))


def exported(draw: random.Random) -> bytes:
    """Options in an address."""
    text = "".join(draw.choices("abcxyz=&%;+#?01/.\\", k=draw.randrange(200)))
    path = f"/api/v1/{draw.choice(VERBS)}/export?{text}&as={draw.choice(('json', 'html', 'pdf', ''))}"
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()


def hostile_request(draw: random.Random) -> bytes:
    """One of them."""
    return draw.choices((asked, travelled, injected, short, exported), weights=(5, 3, 3, 1, 2))[0](draw)


async def send(host: str, port: int, request: bytes) -> int:
    """The status of the answer; 0 of a connection that was closed without one."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(request)
        await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
        start = await asyncio.wait_for(reader.read(64), WAIT_SECONDS)
    except (ConnectionError, TimeoutError):
        return 0
    finally:
        writer.close()
    words = start.split(b" ", 2)
    return int(words[1]) if len(words) > 1 and words[1][:3].isdigit() else 0


async def attack(address: str, number: int, *, seed: int = 0, at_a_time: int = 16) -> Counter[int]:
    """Send so many, some at a time; how many were answered with each status."""
    parts, draw = urlsplit(address), random.Random(seed)
    requests = iter([hostile_request(draw) for _ in range(number)])
    found: Counter[int] = Counter()

    async def one_after_another() -> None:
        for request in requests:
            found[await send(parts.hostname or "", parts.port or 80, request)] += 1

    await asyncio.gather(*(one_after_another() for _ in range(at_a_time)))
    return found


def main() -> None:
    """Attack a server of our own, and say what it answered."""
    import httpx

    from running_server import running_server

    number = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with running_server("--answer-seconds", "20") as address:
        found = asyncio.run(attack(address, number))
        still = httpx.post(f"{address}/api/v1/predict", json=VALID, timeout=60).status_code
    print(f"{number} requests: {dict(sorted(found.items()))} by status (0: closed); then a question: {still}")
    sys.exit(0 if still == 200 and not found[500] else 1)


if __name__ == "__main__":
    main()
