"""An application without a page, its processes warm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from perfcast.server.app import build_app
from perfcast.server.settings import Settings
from running_server import running_server

BASE = "http://localhost"


@pytest.fixture(scope="session")
def api() -> Iterator[TestClient]:
    with TestClient(build_app(Settings(with_page=False)), base_url=BASE) as client:
        yield client


@pytest.fixture(scope="session")
def live_server() -> Iterator[str]:
    """The address of a server in a process of its own."""
    with running_server() as address:
        yield address
