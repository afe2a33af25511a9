"""Jobs: started, watched, fetched, ended; never more than are allowed."""

from __future__ import annotations

import time

import pytest
from starlette.testclient import TestClient

from perfcast.server.app import build_app
from perfcast.server.settings import Settings

PLAN = {"model": "llama3-8b", "cluster": "dgx-h100:16", "plan": "tp=2", "batch_size": 32, "closed_form": True}
#: Takes far longer than a test: a long pipeline of a thousand micro-batches, played event by event.
LONG = {**PLAN, "plan": "pp=16", "batch_size": 4096, "closed_form": False, "micro_batch_size": 1}


def ended(client: TestClient, address: str, seconds: float = 60.0) -> dict:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        job = client.get(address).json()
        if job["state"] in ("done", "failed", "cancelled"):
            return job
        time.sleep(0.05)
    raise AssertionError(f"{address} did not end")


def test_a_job_ends_with_the_answer_that_the_verb_gives(api):
    started = api.post("/api/v1/jobs", json={"verb": "predict", "question": PLAN})
    assert started.status_code == 202
    address = started.headers["location"]
    job = ended(api, address)
    assert job["state"] == "done"
    assert job["progress"] == 1.0
    assert api.get(f"{address}/result").content == api.post("/api/v1/predict", json=PLAN).content
    assert "attachment" in api.get(f"{address}/result?as=html").headers["content-disposition"]


def test_a_job_that_cannot_be_answered_says_why(api):
    question = {**PLAN, "model": "no-such-model"}
    started = api.post("/api/v1/jobs", json={"verb": "predict", "question": question})
    job = ended(api, started.headers["location"])
    assert job["state"] == "failed"
    assert "no-such-model" in job["problem"]["detail"]
    assert api.get(f"{started.headers['location']}/result").status_code == 422


@pytest.mark.parametrize(
    "body",
    [
        {"verb": "predict"},
        {"verb": "predict", "question": [], "x": 1},
        {"verb": 3, "question": {}},
        {"verb": "calibrate", "question": {}},
        {"verb": "replay", "question": {}},
        {"verb": "predict", "question": {**PLAN, "model": "/etc/passwd"}},
    ],
)
def test_what_is_no_job_is_refused(api, body):
    assert api.post("/api/v1/jobs", json=body).status_code == 422


@pytest.mark.parametrize("name", ["nothing", "..%2f..%2fetc%2fpasswd", "%00"])
def test_a_job_that_is_not_there_is_not_found(api, name):
    assert api.get(f"/api/v1/jobs/{name}").status_code == 404
    assert api.delete(f"/api/v1/jobs/{name}").status_code == 404


class TestBounds:
    @pytest.fixture
    def client(self):
        settings = Settings(with_page=False, jobs_running=1, jobs_waiting=1, job_seconds=30.0, workers=1)
        with TestClient(build_app(settings), base_url="http://localhost") as client:
            yield client

    def test_the_queue_is_bounded_and_a_cancelled_job_makes_room(self, client):
        job = {"verb": "predict", "question": LONG}
        first, second = (client.post("/api/v1/jobs", json=job).headers["location"] for _ in range(2))
        refused = client.post("/api/v1/jobs", json=job)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) > 0
        for address in (first, second):
            assert client.delete(address).json()["state"] == "cancelled"
            assert client.get(f"{address}/result").status_code == 409
        third = client.post("/api/v1/jobs", json={"verb": "predict", "question": PLAN})
        assert ended(client, third.headers["location"])["state"] == "done"

    def test_a_job_that_takes_too_much_memory_fails_alone(self):
        settings = Settings(with_page=False, job_bytes=2**20, workers=1)
        with TestClient(build_app(settings), base_url="http://localhost") as client:
            started = client.post("/api/v1/jobs", json={"verb": "predict", "question": PLAN})
            job = ended(client, started.headers["location"])
            assert job["state"] == "failed"
            assert job["problem"]["status"] == 503
            assert client.post("/api/v1/predict", json=PLAN).status_code == 200

    def test_an_answer_that_takes_too_long_is_ended(self):
        settings = Settings(with_page=False, answer_seconds=1.0, job_seconds=1.0, workers=1)
        with TestClient(build_app(settings), base_url="http://localhost") as client:
            assert client.post("/api/v1/predict", json=PLAN).status_code == 200
            assert client.post("/api/v1/predict", json=LONG).status_code == 504
            assert client.post("/api/v1/predict", json=PLAN).status_code == 200
            started = client.post("/api/v1/jobs", json={"verb": "predict", "question": LONG})
            assert ended(client, started.headers["location"])["problem"]["status"] == 504

    def test_finished_jobs_are_forgotten_when_they_are_many(self):
        settings = Settings(with_page=False, jobs_kept=1, workers=1)
        with TestClient(build_app(settings), base_url="http://localhost") as client:
            addresses = []
            for _ in range(3):
                started = client.post("/api/v1/jobs", json={"verb": "predict", "question": PLAN})
                addresses.append(started.headers["location"])
                ended(client, addresses[-1])
            assert [client.get(address).status_code for address in addresses] == [404, 404, 200]
