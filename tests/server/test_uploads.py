"""Uploads: kept under our names, bounded, forgotten, found by nothing but their id."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from perfcast.server.app import build_app
from perfcast.server.settings import Settings


def client_of(**bounds) -> TestClient:
    return TestClient(build_app(Settings(with_page=False, **bounds)), base_url="http://localhost")


def upload(client: TestClient, content: bytes = b"{}") -> str:
    response = client.post("/api/v1/traces", content=content)
    assert response.status_code == 201
    assert response.headers["location"] == f"/api/v1/traces/{response.json()['id']}"
    return response.json()["id"]


def test_an_upload_is_found_by_its_id_until_it_is_dropped():
    client = client_of()
    name = upload(client, b"\x1f\x8b and more")
    path = client.app.state.desk.uploads.find(name).path
    assert (path.parent.name, path.name) == (name, "recording.json.gz")
    assert path.parents[1].stat().st_mode & 0o077 == 0
    assert client.get(f"/api/v1/traces/{name}").json()["num_bytes"] == 11
    assert client.delete(f"/api/v1/traces/{name}").status_code == 204
    assert client.get(f"/api/v1/traces/{name}").status_code == 404
    assert not path.parent.exists()


def test_what_is_too_large_or_empty_is_refused_and_leaves_nothing():
    client = client_of(upload_bytes=10)
    assert client.post("/api/v1/traces", content=b"x" * 11).status_code == 413
    assert client.post("/api/v1/traces", content=iter([b"x" * 6, b"y" * 6])).status_code == 413
    assert client.post("/api/v1/traces", content=b"").status_code == 400
    folder = client.app.state.desk.uploads._folder
    assert folder is None or not list(folder.iterdir())


def test_the_oldest_leave_when_they_are_many():
    client = client_of(uploads_kept=2)
    names = [upload(client) for _ in range(3)]
    found = [client.get(f"/api/v1/traces/{name}").status_code for name in names]
    assert found == [404, 200, 200]


def test_the_oldest_leave_when_they_are_large_together():
    client = client_of(uploads_kept_bytes=10)
    names = [upload(client, b"x" * 8) for _ in range(2)]
    assert [client.get(f"/api/v1/traces/{name}").status_code for name in names] == [404, 200]


@pytest.mark.parametrize("name", ["x", "..%2f..%2fetc%2fpasswd", "0" * 32, "%00", "a" * 5000])
def test_nothing_else_is_found(name):
    client = client_of()
    assert client.get(f"/api/v1/traces/{name}").status_code == 404
    assert client.post(f"/api/v1/traces/{name}/explain", json={}).status_code == 404


def test_a_server_may_take_none():
    assert client_of(uploads_kept=0).post("/api/v1/traces", content=b"{}").status_code == 403
