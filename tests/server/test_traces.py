"""Recordings over HTTP: explained and forecast as on the command line, whatever they hold."""

from __future__ import annotations

import gzip
import json

import pytest
from click.testing import CliRunner
from test_jobs import ended

from perfcast.cli.main import cli
from recorded_traces import two_kernels

TRACE = json.dumps(two_kernels().as_dict()).encode()


@pytest.fixture(scope="module")
def recording(api) -> str:
    return api.post("/api/v1/traces", content=gzip.compress(TRACE)).headers["location"]


def test_an_explanation_is_the_command_line_s(api, recording, tmp_path):
    path = tmp_path / "trace.json"
    path.write_bytes(TRACE)
    said = CliRunner().invoke(cli, ["trace", "explain", str(path), "--json", "-"]).output
    answer = api.post(f"{recording}/explain", json={})
    assert answer.status_code == 200, answer.text
    found, own = json.loads(answer.text.replace("recording.json.gz", "trace.json")), json.loads(said)
    assert "recording" not in json.dumps(found["origin"]["question"])
    assert found.pop("origin") != own.pop("origin")  # the server does not tell where it keeps an upload
    assert found == own


def test_a_forecast_takes_what_ifs(api, recording):
    answer = api.post(f"{recording}/forecast", json={"what_if": ["speed:gemm=0.2"]})
    assert answer.status_code == 200, answer.text
    assert answer.json()["step_seconds"] > api.post(f"{recording}/explain", json={}).json()["step_seconds"]
    refused = api.post(f"{recording}/forecast", json={"what_if": ["speed:nothing=2"]})
    assert refused.status_code == 422


def test_another_upload_is_what_it_was_before(api, recording):
    other = api.post("/api/v1/traces", content=TRACE).json()["id"]
    assert api.post(f"{recording}/explain", json={"compare": other}).status_code == 200
    assert api.post(f"{recording}/explain", json={"compare": ["0" * 32]}).status_code == 404
    assert api.post(f"{recording}/explain", json={"compare": 3}).status_code == 422


def test_as_a_job_with_its_page_and_timeline(api, recording):
    started = api.post(f"{recording}/explain?job=1", json={})
    assert started.status_code == 202
    job = ended(api, started.headers["location"])
    assert job["state"] == "done"
    assert job["question"] == {}
    for form in ("json", "html", "perfetto"):
        answer = api.get(f"{started.headers['location']}/result?as={form}")
        assert answer.status_code == 200
        assert "perfcast-uploads" not in answer.text


@pytest.mark.parametrize(
    "plain",
    [
        {"traces": ["/etc/passwd"]},
        {"max_bytes": "8GiB"},
        {"overheads": "/etc/passwd"},
        {"second": "/etc/passwd"},
        {"nothing": 1},
    ],
)
def test_what_a_user_may_not_say_is_refused(api, recording, plain):
    response = api.post(f"{recording}/forecast", json=plain)
    assert response.status_code in (404, 422)
    assert "root:" not in response.text


@pytest.mark.parametrize(
    "content",
    [
        b"no trace at all",
        b"{}",
        b"[" * 100_000,
        b"\x1f\x8b broken",
        gzip.compress(TRACE, mtime=0)[:-20],
        b'{"traceEvents": [{"ph": "X", "ts": 1e308, "dur": -5, "name": null, "args": []}]}',
        b"PK\x03\x04zip",
    ],
    ids=lambda content: content[:8].hex(),
)
def test_what_is_no_recording_says_so_and_not_where_it_lies(api, content):
    place = api.post("/api/v1/traces", content=content).headers["location"]
    response = api.post(f"{place}/explain", json={})
    assert response.status_code == 422, response.text
    assert "perfcast-uploads" not in response.text
