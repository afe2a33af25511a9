"""What is said of Chakra traces as JSON."""

from __future__ import annotations

from perfcast.report.data.traces.chakra import data_of
from perfcast.traces.chakra.from_trace import chakra_from_traces
from perfcast.traces.chakra.summary import summarize_workload
from recorded_traces import two_kernels
from rendered import json_of


def test_json_keeps_the_published_schema(tmp_path):
    traced = chakra_from_traces((two_kernels().read(tmp_path),))
    data = json_of(data_of(summarize_workload(traced.workload), ["workload.0.et"]))
    assert data["ranks"][0]["num_nodes"] > 0
    assert data["files"] == ["workload.0.et"]
