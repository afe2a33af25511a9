"""Requests that nobody honest makes leave the server answering, find no fault and read no file."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx

from hostile_requests import VALID, attack
from perfcast.server.questions import ADDRESSES
from perfcast.verbs.question import VERBS, field_kinds, question_class
from running_server import running_server

NUMBER = int(os.environ.get("PERFCAST_HOSTILE_REQUESTS", "2000"))


def test_thousands_of_hostile_requests_leave_it_answering():
    with running_server("--answer-seconds", "10") as address:
        found = asyncio.run(attack(address, NUMBER))
        assert sum(found.values()) == NUMBER
        assert not found[500], found
        assert httpx.post(f"{address}/api/v1/predict", json=VALID, timeout=60).status_code == 200
        assert 'status="500"' not in httpx.get(f"{address}/api/v1/metrics").text


def test_slow_heads_and_bodies_are_ended_and_hold_up_nobody():
    with running_server("--header-seconds", "1", "--body-seconds", "1") as address:
        parts = urlsplit(address)
        place = (parts.hostname, parts.port)
        silent = [socket.create_connection(place) for _ in range(20)]
        slow = [socket.create_connection(place) for _ in range(20)]
        head = b"POST /api/v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        for one in slow:
            one.sendall(head + b"Content-Length: 100\r\n\r\n{")
        assert httpx.get(f"{address}/api/v1/health", timeout=10).status_code == 200
        for one in slow:
            one.settimeout(10)
            assert b" 408 " in one.recv(1000)
        for one in silent:
            one.settimeout(10)
            assert one.recv(10) == b""
        for one in (*silent, *slow):
            one.close()


#: Watches what the process opens, and says so; runs before anything else in every process.
WATCH = """
import os, sys
start = os.environ["PERFCAST_TEST_CANARY"]
def watch(event, arguments):
    if event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], (str, bytes, os.PathLike)):
        if os.fsdecode(arguments[0]).startswith(start):
            with open(os.environ["PERFCAST_TEST_SEEN"], "a") as file:
                file.write(f"{event} {arguments[0]}; ")
sys.addaudithook(watch)
"""
ENDINGS = (".json", ".toml", ".py", ".csv", "")


def test_no_option_of_any_verb_opens_a_file_of_the_server(tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(WATCH)
    canary, seen = tmp_path / "canary", tmp_path / "seen"
    for ending in ENDINGS:
        canary.with_name(f"canary{ending}").write_text("def build(): return None\n")
    monkeypatch.setenv("PERFCAST_TEST_CANARY", str(canary))
    monkeypatch.setenv("PERFCAST_TEST_SEEN", str(seen))
    path = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    subprocess.run([sys.executable, "-c", f"open({str(canary)!r})"], check=True)
    assert seen.exists(), "the watch itself must see a file that is opened"
    seen.unlink()
    texts = [
        f"{start}{canary}{ending}" for ending in (*ENDINGS, ".py:build", ":8") for start in ("", "file://")
    ]
    with (
        running_server("--answer-seconds", "5") as address,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        for verb, name, said in questions_with(texts):
            response = client.post(f"/api/v1/{ADDRESSES[verb]}", json={**VALID, name: said})
            assert response.status_code == 422, (verb, name, said, response.text)
        time.sleep(0.1)
    assert not seen.exists(), seen.read_text()


def questions_with(texts: list[str]) -> Iterator[tuple[str, str, object]]:
    """Every option of words of every verb, with each of the texts."""
    for verb in sorted(set(ADDRESSES) & set(VERBS)):
        for name, kind in field_kinds(question_class(verb)).items():
            if kind.scalar is str:
                yield from ((verb, name, [text] if kind.is_list else text) for text in texts)
