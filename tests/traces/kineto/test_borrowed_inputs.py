from __future__ import annotations

from pathlib import Path

from made_up_traces import document, event, timeline, write
from perfcast.traces.kineto.borrowed_inputs import read_ranks_with_inputs, with_inputs_of


def step(number: int, start: float, *, has_shapes: bool) -> list[dict[str, object]]:
    events = [event(f"ProfilerStep#{number}", start, 90, category="user_annotation")]
    for place, name in enumerate(["aten::mm", "aten::relu", "aten::mm"]):
        args = {"Input_Dims": [[place, 2]], "Input_type": ["float"]} if has_shapes else {}
        events.append(event(name, start + 10 * place, 5, **args))
    return events


def test_each_step_gets_the_shapes_of_the_step_that_has_them(tmp_path: Path):
    bare = timeline(tmp_path, [*step(1, 0, has_shapes=False), *step(2, 100, has_shapes=False)])
    lent = timeline(tmp_path, step(7, 0, has_shapes=True))
    found = with_inputs_of(bare, lent).events
    shapes = [inputs.shapes for row in range(len(found)) if (inputs := found.inputs_of(row)) is not None]
    assert shapes == [((0, 2),), ((1, 2),), ((2, 2),)] * 2


def test_an_operator_keeps_the_inputs_that_it_has(tmp_path: Path):
    own = timeline(tmp_path, [event("aten::mm", 0, 5, Input_Dims=[[9]], Input_type=["float"])])
    lent = timeline(tmp_path, [event("aten::mm", 0, 5, Input_Dims=[[1]], Input_type=["float"])])
    inputs = with_inputs_of(own, lent).events.inputs_of(0)
    assert inputs is not None
    assert inputs.shapes == ((9,),)


def test_a_timeline_without_shapes_takes_those_of_the_linked_one_beside_it(tmp_path: Path):
    bare = write(tmp_path / "rank0.kineto.json.gz", document(step(1, 0, has_shapes=False)))
    (alone,) = read_ranks_with_inputs([bare])
    assert (alone.events.inputs_table, alone.warnings) == ((), ())
    write(tmp_path / "rank0.linked.json.gz", document(step(7, 0, has_shapes=True)))
    (told,) = read_ranks_with_inputs([bare])
    assert [inputs.shapes for inputs in told.events.inputs_table] == [((0, 2),), ((1, 2),), ((2, 2),)]
    assert told.warnings == ("shapes of arguments are those of one step recorded beside (*.linked.json.gz)",)


def test_a_timeline_with_shapes_and_one_of_another_name_stay_as_they_are(tmp_path: Path):
    write(tmp_path / "rank0.linked.json.gz", document(step(7, 0, has_shapes=True)))
    own = write(tmp_path / "rank0.kineto.json.gz", document(step(1, 0, has_shapes=True)))
    other = write(tmp_path / "mine.json.gz", document(step(1, 0, has_shapes=False)))
    for path in (own, other):
        assert read_ranks_with_inputs([path])[0].warnings == ()
