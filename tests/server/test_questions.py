"""Questions over HTTP: answered as on the command line, read strictly, refused where they name files."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from perfcast.cli.main import cli
from perfcast.errors import InputError
from perfcast.server.questions import VERBS, read_question

PLAN = {
    "model": "llama3-8b",
    "cluster": "dgx-h100:16",
    "plan": "tp=2,zero=1",
    "batch_size": 32,
    "closed_form": True,
}


def test_an_answer_is_the_command_line_s_json_byte_for_byte(api):
    arguments = ["llama3-8b", "--cluster", "dgx-h100:16", "--plan", "tp=2,zero=1", "--batch-size", "32"]
    result = CliRunner().invoke(cli, ["predict", *arguments, "--closed-form", "--json", "-"])
    assert result.exit_code == 0
    assert api.post("/api/v1/predict", json=PLAN).text == result.output


def test_an_equal_question_is_answered_from_what_is_kept(api):
    first = api.post("/api/v1/predict", json=PLAN)
    hits = _metric(api, "perfcast_cache_hits_total")
    again = api.post("/api/v1/predict", json={**dict(reversed(PLAN.items())), "stragglers": None})
    assert again.content == first.content
    assert _metric(api, "perfcast_cache_hits_total") == hits + 1


def _metric(api, name: str) -> float:
    lines = api.get("/api/v1/metrics").text.splitlines()
    return float(next(line for line in lines if line.startswith(f"{name} ")).split()[1])


def test_an_answer_is_a_page_or_a_file_where_that_is_asked_for(api):
    page = api.post("/api/v1/predict?format=html", json=PLAN)
    assert page.text.lower().startswith("<!doctype html>")
    assert "sandbox" in page.headers["content-security-policy"]
    query = "model=llama3-8b&cluster=dgx-h100:16&plan=tp=2,zero=1&batch_size=32&closed_form=1"
    file = api.get(f"/api/v1/predict/export?{query}&as=json")
    assert file.headers["content-disposition"] == 'attachment; filename="perfcast-predict.json"'
    assert file.text == api.post("/api/v1/predict", json=PLAN).text
    assert api.get(f"/api/v1/predict/export?{query}&as=pdf").status_code == 406


def test_formulas_have_no_timeline(api):
    assert api.post("/api/v1/predict?format=perfetto", json=PLAN).status_code in (406, 422)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"model": "gpt2-largee", "device": "h100-sxm"}, "gpt2-large"),
        ({**PLAN, "modle": 1}, "model"),
        ({**PLAN, "batch_size": "many"}, "batch_size"),
        ({**PLAN, "batch_size": 10**30}, "batch_size"),
        ({**PLAN, "plan": "tp=3"}, "no multiple of tp"),
        ({**PLAN, "plan": {"tp": 2}}, "plan"),
        ({}, "model"),
    ],
)
def test_what_cannot_be_answered_says_why_and_what_may_have_been_meant(api, given, said):
    response = api.post("/api/v1/predict", json=given)
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"
    assert said in response.json()["detail"]


MALFORMED = (
    b"",
    b"{",
    b"[" * 100_000,
    b'{"a":1,"a":2}',
    b'{"model":NaN}',
    b"1" * 5000,
    b"\xff",
    b"[]",
    b"null",
)


@pytest.mark.parametrize("body", MALFORMED, ids=lambda body: body[:12].hex())
def test_a_body_that_is_no_object_is_malformed(api, body):
    headers = {"content-type": "application/json"}
    assert api.post("/api/v1/predict", content=body, headers=headers).status_code == 400


@pytest.mark.parametrize("media_type", ["text/plain", "", "application/x-www-form-urlencoded"])
def test_a_form_of_another_site_is_not_read(api, media_type):
    response = api.post("/api/v1/predict", content=json.dumps(PLAN), headers={"content-type": media_type})
    assert response.status_code == 415


def test_a_cluster_of_servers_with_fewer_devices_is_a_name(api):
    response = api.post("/api/v1/predict", json={**PLAN, "cluster": "dgx-h100/4:16"})
    assert response.status_code == 200


@pytest.mark.parametrize("letters", ["\x00", "a\nb", "\ud800", "\u202e"])
def test_letters_that_cannot_be_printed_are_refused(api, letters):
    body = json.dumps({**PLAN, "model": letters})
    response = api.post("/api/v1/predict", content=body, headers={"content-type": "application/json"})
    assert response.status_code == (400 if letters == "\ud800" else 422)  # no text at all


@pytest.mark.parametrize("address", sorted(VERBS))
@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../x.json",
        "~/x",
        "model.py:build",
        "C:\\x.toml",
        "./here",
        "x/config.json",
        "x/4",
        "../4",
        "timm:local-dir:/x",
    ],
)
def test_no_option_of_any_verb_takes_a_file(api, address, path):
    schema_fields = ("model", "device", "cluster", "weights", "cost_model")
    for name in schema_fields:
        response = api.post(f"/api/v1/{address}", json={"model": "gpt2", "device": "h100-sxm", name: path})
        assert response.status_code in (404, 422), (name, response.text)
        assert "root:" not in response.text


@pytest.mark.parametrize("plan", ["pp=2,stages=17/15", "pp=2,vp=2,stages=8/8/8/8,zero=1,mbs=1"])
def test_layers_of_stages_are_no_path(plan):
    asked = {**PLAN, "plan": plan}
    assert read_question("predict", asked).plain["plan"] == plan


@pytest.mark.parametrize("plan", ["stages=8/../4", "stages=/etc/passwd", "stages=8/8/x", "8/8"])
def test_a_path_is_no_layers_of_stages(plan):
    with pytest.raises(InputError, match="names a file"):
        read_question("predict", {**PLAN, "plan": plan})
