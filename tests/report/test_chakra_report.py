"""What is said of Chakra traces as JSON."""

from __future__ import annotations

import json

from jsonschema import Draft202012Validator

from perfcast.report.chakra import chakra_schema, chakra_to_dict
from perfcast.traces.chakra.from_trace import chakra_from_traces
from perfcast.traces.chakra.summary import summarize_workload
from recorded_traces import two_kernels


def test_json_keeps_the_published_schema(tmp_path):
    traced = chakra_from_traces((two_kernels().read(tmp_path),))
    data = json.loads(json.dumps(chakra_to_dict(summarize_workload(traced.workload), ["workload.0.et"])))
    Draft202012Validator.check_schema(chakra_schema())
    Draft202012Validator(chakra_schema()).validate(data)
    assert data["ranks"][0]["num_nodes"] > 0
    assert data["files"] == ["workload.0.et"]
