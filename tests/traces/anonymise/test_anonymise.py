from __future__ import annotations

import gzip
import json

import pytest
import torch
from click.testing import CliRunner
from torch import nn
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, record_function

from perfcast.cli.trace.anonymise import anonymise
from perfcast.errors import TraceError
from perfcast.traces.anonymise.names import Names
from perfcast.traces.anonymise.trace import anonymise_trace
from perfcast.traces.execution_trace.reader import read_execution_trace
from perfcast.traces.kineto.reader import read_kineto
from perfcast.traces.link.traces import link

SECRET = "SecretRanker"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Execution trace and timeline of two steps, under labels that nobody may read."""
    place = tmp_path_factory.mktemp("recorded")
    model, inputs = nn.Linear(16, 4), torch.randn(8, 16)
    observer = ExecutionTraceObserver().register_callback(str(place / "et.json"))
    with profile(activities=[ProfilerActivity.CPU], execution_trace_observer=observer) as profiler:
        for step in range(2):
            with record_function(f"ProfilerStep#{step}"), record_function(f"{SECRET}.forward"):
                model(inputs).sum().backward()
    profiler.export_chrome_trace(str(place / "kineto.json"))
    observer.unregister_callback()
    return place


def test_labels_are_hashed_and_operators_stay(recorded, tmp_path):
    found = anonymise_trace(recorded / "et.json", tmp_path / "out.json.gz", salt="s")
    assert found.num_hashed > 0
    assert SECRET not in gzip.decompress((tmp_path / "out.json.gz").read_bytes()).decode()
    before, after = read_execution_trace(recorded / "et.json"), read_execution_trace(found.path)
    assert [n.schema for n in before.nodes if n.schema] == [n.schema for n in after.nodes if n.schema]
    assert [n.inputs for n in before.nodes if n.schema] == [n.inputs for n in after.nodes if n.schema]


def test_both_files_of_a_run_still_link_entirely(recorded, tmp_path):
    trace = anonymise_trace(recorded / "et.json", tmp_path / "et.json", salt="s").path
    timeline = anonymise_trace(recorded / "kineto.json", tmp_path / "kineto.json", salt="s").path
    assert SECRET not in timeline.read_text()
    found = link(read_execution_trace(trace), read_kineto(timeline))
    assert found.row_rate == 1


def test_only_the_steps_asked_for_are_kept(recorded, tmp_path):
    every = anonymise_trace(recorded / "et.json", tmp_path / "a.json", salt="s")
    one = anonymise_trace(recorded / "et.json", tmp_path / "b.json", salt="s", steps=(1, 1))
    assert one.num_kept < every.num_kept
    names = [node.name for node in read_execution_trace(one.path).nodes]
    assert [name for name in names if name.startswith("ProfilerStep#")] == ["ProfilerStep#1"]
    timeline = anonymise_trace(recorded / "kineto.json", tmp_path / "k.json", salt="s", steps=(0, 0))
    assert len(read_kineto(timeline.path).steps) == 1


def test_steps_that_are_not_there_are_refused(recorded, tmp_path):
    for name in ("et.json", "kineto.json"):
        with pytest.raises(TraceError, match="2 are marked"):
            anonymise_trace(recorded / name, tmp_path / "out.json", salt="s", steps=(1, 5))


@pytest.mark.parametrize(
    "name",
    ["aten::mm", "ProfilerStep#3", "AddmmBackward0", "Optimizer.step#AdamW.step", "record_param_comms",
     "autograd::engine::evaluate_function: AddmmBackward0", "## process_group:init ##"],
)  # fmt: skip
def test_names_that_pytorch_gives_stay(name):
    assert Names("s").operator(name) == name


@pytest.mark.parametrize(
    "name",
    [SECRET, f"company::{SECRET}", f"{SECRET}Backward", f"Optimizer.step#{SECRET}.step",
     f"nn.Module: {SECRET}", f"## {SECRET} ##", f"aten::a\n{SECRET}",
     f"autograd::engine::evaluate_function: {SECRET}Backward"],
)  # fmt: skip
def test_other_names_are_hashed_alike_for_one_salt(name):
    first = Names("s").operator(name)
    assert SECRET not in first
    assert first == Names("s").operator(name)
    assert first != Names("t").operator(name)


def test_the_schema_of_a_private_operator_keeps_its_types_alone():
    names = Names("s")
    schema = names.schema("company::rank.out(Tensor clicks, int depth=3, *, float decay) -> Tensor")
    assert schema.startswith(names.operator("company::rank") + ".out(")
    assert not any(word in schema for word in ("company", "clicks", "depth", "decay"))


@pytest.mark.parametrize("text", ["{}", "[]", "not json", '{"nodes": 3}', '{"nodes": [4]}'])
def test_what_is_no_trace_is_refused(tmp_path, text):
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(TraceError):
        anonymise_trace(tmp_path / "bad.json", tmp_path / "out.json", salt="s")


def test_the_command_says_what_it_wrote(recorded, tmp_path):
    arguments = [str(recorded / "et.json"), "--out", str(tmp_path / "out.json"), "--steps", "0"]
    done = CliRunner().invoke(anonymise, arguments)
    assert done.exit_code == 0, done.output
    assert "names hashed" in done.output
    assert json.loads((tmp_path / "out.json").read_text())["nodes"]
    assert CliRunner().invoke(anonymise, [*arguments[:-1], "x"]).exit_code == 2
