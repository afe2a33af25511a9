"""The description is sound, holds real schemas, and no request made by it finds a fault."""

from __future__ import annotations

import os

import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error

from perfcast.server.openapi import openapi

EXAMPLES = int(os.environ.get("PERFCAST_API_EXAMPLES", "8"))
SCHEMA = schemathesis.openapi.from_dict(openapi())


@SCHEMA.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_request_that_the_description_allows_finds_a_fault(case, live_server):
    response = case.call(base_url=live_server)
    if response.status_code not in (503, 504):  # bounds that a request met are no fault
        case.validate_response(response, checks=[not_a_server_error])


def test_it_is_served_as_it_is(api):
    assert api.get("/api/v1/openapi.json").json() == openapi()


def test_every_reference_has_what_it_refers_to():
    found = openapi()
    jsonschema.Draft202012Validator.check_schema({"$defs": found["components"]["schemas"]})
    for reference in references(found):
        name = reference.removeprefix("#/components/schemas/")
        assert name in found["components"]["schemas"]


def references(value):
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from references(item)


@pytest.mark.parametrize("path", list(openapi()["paths"]))
def test_every_address_of_it_is_one(api, path):
    (method,) = {"get", "post"} & openapi()["paths"][path].keys() or {"get"}
    response = api.request(method, path.replace("{kind}", "devices").replace("{name}", "h100-sxm"))
    assert response.status_code != 405
    assert "No such address" not in response.text


def test_an_answer_is_as_the_description_says(api):
    plan = {
        "model": "llama3-8b",
        "cluster": "dgx-h100:8",
        "plan": "tp=2",
        "batch_size": 8,
        "closed_form": True,
    }
    found = openapi()
    schema = {**found["components"]["schemas"]["answer-predict-plan"], "components": found["components"]}
    jsonschema.validate(api.post("/api/v1/predict", json=plan).json(), schema)
