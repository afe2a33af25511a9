"""The API as OpenAPI 3.1, by the schemas that questions are read by and answers are written by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from perfcast.report.answers import SUBJECTS, schema_of
from perfcast.server.jobs import State
from perfcast.server.problems import KINDS
from perfcast.server.questions import ADDRESSES
from perfcast.verbs.question import VERBS as ASKED
from perfcast.verbs.schema import question_schema
from perfcast.version import perfcast_version

Schema = dict[str, Any]

#: Errors that any address may answer with, beside those that its own lines name.
_ALWAYS = (401, 403, 408, 413, 421, 429, 500, 503)
_ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "maxLength": 64}}
#: What is asked of a recording → its verb; options that the server fills in itself.
_OF_TRACES = {"explain": "trace explain", "forecast": "trace forecast"}
_FILLED_IN = ("traces", "max_bytes")
_FORMS = {"type": "string", "enum": ["json", "html", "perfetto"], "default": "json"}


@cache
def openapi() -> Schema:
    """The whole description."""
    verbs = {verb: address for verb, address in ADDRESSES.items() if verb in ASKED}
    paths: Schema = {}
    for verb, address in verbs.items():
        paths |= _verb_paths(verb, address)
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "perfcast",
            "version": perfcast_version(),
            "description": "Forecasts of how fast deep-learning training and inference run, and how much "
            "memory they need. Units inside answers: seconds, bytes, flops.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": {
            f"/api/v1{path}": entry
            for path, entry in (
                paths | _job_paths() | _trace_paths() | _catalog_paths() | _own_paths()
            ).items()
        },
        "components": {
            "schemas": {**_question_schemas(verbs), **_answer_schemas(), **_own_schemas(verbs)},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _verb_paths(verb: str, address: str) -> Schema:
    subjects = [_ref(f"answer-{one}") for one in _subjects_of(verb)]
    answer = {"anyOf": subjects} if len(subjects) > 1 else (subjects or [{"type": "object"}])[0]
    content = {"application/json": {"schema": answer}, "text/html": {"schema": {"type": "string"}}}
    form = {"name": "format", "in": "query", "schema": _FORMS}
    return {
        f"/{address}": {
            "post": {
                "operationId": address,
                "summary": question_schema(verb)["description"],
                "parameters": [form],
                "requestBody": _json_body(_ref(f"question-{address}")),
                "responses": _responses({"200": _said("The answer.", content)}, 400, 406, 415, 422, 504),
            }
        },
        f"/{address}/export": {
            "get": {
                "operationId": f"{address}-export",
                "summary": "The same as a file, its options in the query.",
                "parameters": [
                    {"name": "as", "in": "query", "schema": _FORMS},
                    *_options_in_query(question_schema(verb)),
                ],
                "responses": _responses({"200": _said("The file.", content)}, 406, 422, 504),
            }
        },
    }


def _options_in_query(schema: Schema) -> Iterator[Schema]:
    for name, entry in schema["properties"].items():
        inner = {key: value for key, value in entry.items() if key != "description"}
        yield {
            "name": name,
            "in": "query",
            "required": name in schema["required"],
            "schema": inner,
            "description": entry.get("description", ""),
        }


def _job_paths() -> Schema:
    job = _said("The job.", {"application/json": {"schema": _ref("job")}})
    result: Schema = {form: {"schema": {}} for form in ("application/json", "text/html")}
    form = {"name": "as", "in": "query", "schema": _FORMS}
    return {
        "/jobs": {
            "post": {
                "operationId": "start-job",
                "summary": "Ask what takes long, in a process of its own.",
                "requestBody": _json_body(_ref("job-request")),
                "responses": _responses({"202": job}, 400, 415, 422),
            }
        },
        "/jobs/{id}": {
            "parameters": [_ID],
            "get": _operation("show-job", "A job's state, progress and message.", job),
            "delete": _operation("cancel-job", "End a job.", job),
        },
        "/jobs/{id}/result": {
            "parameters": [_ID, form],
            "get": {
                "operationId": "job-result",
                "summary": "A job's answer.",
                "responses": _responses({"200": _said("The answer.", result)}, 404, 406, 409, 422, 504),
            },
        },
    }


def _trace_paths() -> Schema:
    upload = _said("The upload.", {"application/json": {"schema": _ref("upload")}})
    binary = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    answers = [_ref("answer-trace-explain"), _ref("answer-trace-forecast")]
    answer = {"application/json": {"schema": {"anyOf": answers}}}
    job = {"application/json": {"schema": _ref("job")}}
    asked = [_ref(f"question-trace-{one}") for one in _OF_TRACES]
    what = {
        "name": "what",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "enum": list(_OF_TRACES)},
    }
    return {
        "/traces": {
            "post": {
                "operationId": "upload-trace",
                "summary": "Take a recording of PyTorch's profiler: JSON, gzip or tar.",
                "requestBody": {"required": True, "content": binary},
                "responses": _responses({"201": upload}, 400),
            }
        },
        "/traces/{id}": {
            "parameters": [_ID],
            "get": _operation("show-trace", "What is known of an upload.", upload),
            "delete": {
                "operationId": "drop-trace",
                "summary": "Forget an upload.",
                "responses": _responses({"204": {"description": "Forgotten."}}, 404),
            },
        },
        "/traces/{id}/{what}": {
            "parameters": [_ID, what],
            "post": {
                "operationId": "ask-trace",
                "summary": "Explain an upload, or forecast it elsewhere or changed.",
                "parameters": [
                    {"name": "format", "in": "query", "schema": _FORMS},
                    {"name": "job", "in": "query", "schema": {"type": "string", "enum": ["0", "1"]}},
                ],
                "requestBody": _json_body({"anyOf": asked}),
                "responses": _responses(
                    {"200": _said("The answer.", answer), "202": _said("The job.", job)},
                    *(400, 404, 406, 415, 422, 504),
                ),
            },
        },
    }


def _catalog_paths() -> Schema:
    found = _said("The entries.", {"application/json": {"schema": {"type": "object"}}})
    kinds = ["devices", "models", "clusters"]
    kind = {"name": "kind", "in": "path", "required": True, "schema": {"type": "string", "enum": kinds}}
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "maxLength": 100}}
    return {
        "/catalog/{kind}": {
            "parameters": [kind],
            "get": _operation("list-catalog", "All devices, models or clusters, with sources.", found),
        },
        "/catalog/{kind}/{name}": {
            "parameters": [kind, name],
            "get": _operation("show-catalog", "One device, model or cluster.", found),
        },
    }


def _own_paths() -> Schema:
    plain = {"application/json": {"schema": {"type": "object"}}}
    text = {"text/plain": {"schema": {"type": "string"}}}
    found = (
        ("health", "Whether the server answers.", plain),
        ("version", "Which perfcast this is.", plain),
        ("metrics", "Counters as Prometheus reads them.", text),
        ("openapi.json", "This description.", plain),
    )
    return {
        f"/{name}": {
            "get": {
                "operationId": name.partition(".")[0],
                "summary": summary,
                "responses": _responses({"200": _said(summary, content)}),
            }
        }
        for name, summary, content in found
    }


def _operation(name: str, summary: str, success: Schema) -> Schema:
    return {"operationId": name, "summary": summary, "responses": _responses({"200": success}, 404)}


def _json_body(schema: Schema) -> Schema:
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _said(description: str, content: Schema) -> Schema:
    return {"description": description, "content": content}


def _responses(own: Mapping[str, Schema], *errors: int) -> Schema:
    content = {"application/problem+json": {"schema": _ref("problem")}}
    return {**own, **{str(one): _said(KINDS[one][1], content) for one in sorted({*errors, *_ALWAYS})}}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _subjects_of(verb: str) -> list[str]:
    """Kinds of answers that a verb gives."""
    address = ADDRESSES[verb]
    others = [one for one in ADDRESSES.values() if one != address]
    return [
        one for one in SUBJECTS if (one == address or one.startswith(f"{address}-")) and one not in others
    ]


def _question_schemas(verbs: Mapping[str, str]) -> Schema:
    found = {f"question-{address}": _inner(question_schema(verb)) for verb, address in verbs.items()}
    for what, verb in _OF_TRACES.items():
        schema = _inner(question_schema(verb))
        properties = {key: value for key, value in schema["properties"].items() if key not in _FILLED_IN}
        found[f"question-trace-{what}"] = {**schema, "properties": properties, "required": []}
    return found


def _answer_schemas() -> Schema:
    """Those of ``perfcast catalog schemas``, their inner types under names of their own."""
    found: Schema = {}
    for subject in SUBJECTS:
        schema = _inner(schema_of(subject))
        for name, inner in schema.pop("$defs", {}).items():
            found[f"answer-{subject}.{name}"] = _renamed(inner, subject)
        found[f"answer-{subject}"] = _renamed(schema, subject)
    return found


def _inner(schema: Schema) -> Schema:
    return {key: value for key, value in schema.items() if key != "$schema"}


def _renamed(value: Any, subject: str) -> Any:
    """The same with references to a schema's own definitions that hold here."""
    if isinstance(value, list):
        return [_renamed(item, subject) for item in value]
    if not isinstance(value, dict):
        return value
    found = {key: _renamed(item, subject) for key, item in value.items()}
    reference = found.get("$ref")
    if isinstance(reference, str):
        found["$ref"] = reference.replace("#/$defs/", f"#/components/schemas/answer-{subject}.")
    return found


def _own_schemas(verbs: Mapping[str, str]) -> Schema:
    text, seconds = {"type": "string"}, {"type": ["number", "null"]}
    states = list(State.__args__)  # type: ignore[attr-defined]
    return {
        "problem": {
            "type": "object",
            "description": "An error (RFC 9457).",
            "properties": {
                "type": text,
                "title": text,
                "status": {"type": "integer"},
                "detail": text,
                "instance": text,
                "close_names": {"type": "array", "items": text},
            },
            "required": ["type", "title", "status", "detail"],
        },
        "job-request": {
            "type": "object",
            "properties": {
                "verb": {"type": "string", "enum": list(verbs.values())},
                "question": {"type": "object"},
            },
            "required": ["verb", "question"],
            "additionalProperties": False,
        },
        "job": {
            "type": "object",
            "properties": {
                "id": text,
                "verb": text,
                "question": {"type": "object"},
                "state": {"type": "string", "enum": states},
                "progress": seconds,
                "message": text,
                "created_at": {"type": "number"},
                "started_at": seconds,
                "ended_at": seconds,
                "problem": {"type": ["object", "null"]},
            },
            "required": ["id", "verb", "question", "state"],
        },
        "upload": {
            "type": "object",
            "properties": {"id": text, "num_bytes": {"type": "integer"}, "uploaded_at": {"type": "number"}},
            "required": ["id", "num_bytes", "uploaded_at"],
        },
    }
