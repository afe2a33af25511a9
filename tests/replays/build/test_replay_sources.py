from __future__ import annotations

import json
from pathlib import Path

from made_up_replays import Script
from made_up_traces import document as timeline_document
from made_up_traces import event, execution_document, node, tensor, write
from perfcast.replays.build.differentiated import parameters
from perfcast.replays.build.sources import read_sources
from perfcast.replays.program.program import CallKind, ReplayCall, SlotUse

RELU = "aten::relu(Tensor self) -> Tensor"


def test_an_execution_trace_brings_what_its_recording_wrote_beside_it(tmp_path: Path):
    sides = [(tensor(number, number + 100, [4]), "Tensor(float)", [4]) for number in (10, 11)]
    relu = node(3, "aten::relu", inputs=sides[:1], outputs=sides[1:], schema=RELU)
    trace = write(tmp_path / "rank0.et.json", execution_document([relu]))
    write(tmp_path / "rank0.linked.json", timeline_document([event("aten::relu", 0, 10)]))
    sides = {"processor": [0.5, 0.7], "wall": [1.0, 1.0]}
    record = {
        "rank": 0,
        "world_size": 1,
        "files": {"et": "rank0.et.json", "linked": "rank0.linked.json"},
        "num_steps": 1,
        "steps_by": "optimizer",
        "problem": "",
        "seconds": dict.fromkeys(("before", "after", "timeline", "execution trace"), sides),
    }
    (tmp_path / "rank0.record.json").write_text(json.dumps(record))
    (source,) = read_sources(trace)
    assert source.linked is not None
    assert source.plain_processor_seconds == 0.6
    other = write(tmp_path / "other.json", execution_document([relu]))
    assert read_sources(other)[0].linked is None


def test_running_statistics_are_no_parameters_though_others_write_them_too():
    script = Script()
    weight, mean, image = script.given(3), script.given(3), script.given(2, 3)
    schema = "aten::norm(Tensor input, Tensor weight, Tensor running_mean) -> Tensor"
    uses = (SlotUse(image), SlotUse(weight), SlotUse(mean))
    script.calls.append(
        ReplayCall(1, CallKind.OPERATOR, "aten::norm", "", schema, uses, is_differentiated=True)
    )
    for slot in (weight, mean):
        script.write("aten::add_", SlotUse(slot), SlotUse(slot), 1)
    assert parameters(script.program()) == {weight}
