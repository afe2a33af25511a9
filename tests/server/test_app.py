"""What every answer of the server keeps to, whoever makes it."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from perfcast.errors import InputError
from perfcast.server.app import build_app
from perfcast.server.settings import Settings

BASE = "http://localhost"


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(build_app(Settings(with_page=False)), base_url=BASE)


def problem_of(response) -> dict:
    assert response.headers["content-type"] == "application/problem+json"
    return response.json()


def test_health_and_version_answer(client):
    assert client.get("/api/v1/health").json() == {"status": "ok"}
    assert client.get("/api/v1/version").json()["schema_version"] == "1"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/api/v1/nothing", 404), ("DELETE", "/api/v1/health", 405), ("GET", "/nothing", 404)],
)
def test_errors_are_problems(client, method, path, status):
    response = client.request(method, path)
    assert response.status_code == status
    assert problem_of(response)["status"] == status


def test_a_method_that_does_not_fit_is_told_those_that_do(client):
    assert "GET" in client.delete("/api/v1/health").headers["allow"]


@pytest.mark.parametrize("path", ["/api/v1/health", "/api/v1/nothing", "/nothing"])
def test_every_answer_has_the_hardened_headers(client, path):
    headers = client.get(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "server" not in headers


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "localhost@evil", "", "a b", "[::1"]
)
def test_a_stranger_s_name_is_refused(client, host):
    response = client.get("/api/v1/health", headers={"host": host})
    assert response.status_code == 421
    assert "evil" not in problem_of(response)["detail"]


@pytest.mark.parametrize("host", ["localhost:8642", "127.0.0.1", "[::1]:80", "LOCALHOST", "10.1.2.3:99"])
def test_its_own_names_and_addresses_in_numbers_are_taken(client, host):
    assert client.get("/api/v1/health", headers={"host": host}).status_code == 200


def test_a_page_of_another_site_cannot_ask(client):
    for headers in ({"origin": "http://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}):
        response = client.post("/api/v1/health", headers=headers)
        assert response.status_code == 403, headers
    assert client.post("/api/v1/health", headers={"origin": BASE}).status_code == 405


def test_metrics_count_answers_by_the_template_of_their_address(client):
    client.get("/api/v1/health")
    client.get("/api/v1/made-up-by-a-stranger")
    text = client.get("/api/v1/metrics").text
    assert 'route="/api/v1/health",status="200"' in text
    assert "stranger" not in text


def test_a_fault_inside_is_answered_with_an_id_alone(caplog):
    app = build_app(Settings(with_page=False))

    async def broken(request):
        raise RuntimeError("a secret of the inside")

    app.router.routes.insert(0, type(app.routes[0])("/api/v1/broken", broken))
    response = TestClient(app, base_url=BASE).get("/api/v1/broken")
    problem = problem_of(response)
    assert response.status_code == 500
    assert "secret" not in response.text
    assert problem["instance"].rpartition(":")[2] in caplog.text


def test_bodies_are_bounded():
    client = TestClient(build_app(Settings(with_page=False, request_bytes=100)), base_url=BASE)
    assert client.post("/api/v1/health", content=b"x" * 101).status_code == 413


@pytest.mark.parametrize(
    "given", [{"workers": 0}, {"answer_seconds": float("nan")}, {"token": "short"}, {"port": -1}]
)
def test_impossible_settings_are_refused(given):
    with pytest.raises(InputError):
        Settings(**given)


class TestToken:
    TOKEN = "a-token-of-sixteen-or-more"

    @pytest.fixture
    def client(self) -> TestClient:
        return TestClient(build_app(Settings(with_page=False, token=self.TOKEN)), base_url=BASE)

    def test_without_it_nothing_but_health_is_answered(self, client):
        assert client.get("/api/v1/version").status_code == 401
        assert client.get("/api/v1/version").headers["www-authenticate"].startswith("Bearer")
        assert client.get("/api/v1/health").status_code == 200

    @pytest.mark.parametrize("given", ["Bearer wrong", "Basic abc", "Bearer", "", "Bearer \x80\xff"])
    def test_another_one_is_refused(self, client, given):
        headers = {"authorization": given.encode("latin-1")}
        assert client.get("/api/v1/version", headers=headers).status_code == 401

    def test_programs_bring_it_in_the_head(self, client):
        headers = {"authorization": f"Bearer {self.TOKEN}"}
        assert client.get("/api/v1/version", headers=headers).status_code == 200

    def test_browsers_log_in_and_never_hold_the_token_itself(self, client):
        assert client.get("/", headers={"accept": "text/html"}).url.path == "/login"
        assert client.post("/login", data={"token": "wrong"}).status_code == 401
        answer = client.post("/login", data={"token": self.TOKEN}, follow_redirects=False)
        cookie = answer.headers["set-cookie"]
        assert self.TOKEN not in cookie
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert client.get("/api/v1/version").status_code == 200
