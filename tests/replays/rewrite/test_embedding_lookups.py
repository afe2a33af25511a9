from __future__ import annotations

from pathlib import Path

import pytest

from made_up_traces import execution_trace, node, tensor
from perfcast.errors import TraceError
from perfcast.replays.build.build import build_program
from perfcast.replays.play.player import Player
from perfcast.replays.program.program import ReplayProgram

FLOAT, LONG, INT = "Tensor(float)", "Tensor(long int)", "Tensor(int)"
LOOKUP = (
    "fbgemm::split_embedding_codegen_lookup_sgd_function(Tensor dev_weights, Tensor uvm_weights, "
    "Tensor D_offsets, int total_D, int max_D, Tensor indices, Tensor offsets, int pooling_mode, "
    "Tensor? indice_weights) -> Tensor"
)


def looked_up(
    folder: Path, *, widths: int, num_tables: int = 3, batch: int = 4, pooling: int = 0
) -> ReplayProgram:
    """Tables of 20 rows together 'widths' wide, 5 lookups a bag."""

    def given(number: int, kind: str, *shape: int):
        size = 8 if kind == LONG else 4
        return (tensor(number, number + 1000, list(shape), size=size), kind, list(shape))

    bags = num_tables * batch
    inputs = [
        given(10, FLOAT, 20 * widths),
        given(11, FLOAT, 0),
        given(12, INT, num_tables + 1),
        (widths, "Int", []),
        (widths // num_tables, "Int", []),
        given(13, LONG, 5 * bags),
        given(14, LONG, bags + 1),
        (pooling, "Int", []),
        ("<None>", "None", []),
    ]
    output = given(15, FLOAT, batch, widths)
    made = node(3, LOOKUP.partition("(")[0], inputs=inputs, outputs=[output], schema=LOOKUP)
    return build_program(execution_trace(folder, [made]))


def test_equal_tables_are_one_bag_operator_whose_result_is_as_recorded(tmp_path):
    program = looked_up(tmp_path, widths=24)
    assert [call.operator for call in program.calls] == ["aten::_embedding_bag", "aten::reshape"]
    assert program.slots[program.calls[0].arguments[0].slot].shape == (60, 8)
    assert program.rebuilt == (
        "fbgemm::split_embedding_codegen_lookup_sgd_function is played as aten::_embedding_bag on 3 tables "
        "of 20 rows, 8 wide: as if all were equal, since the trace keeps only their sums",
    )
    rehearsal = Player(program).rehearse()
    assert (rehearsal.failures, rehearsal.replaced) == ({}, {})


def test_bags_have_their_lookups(tmp_path):
    program = looked_up(tmp_path, widths=24)
    indices, offsets = (program.slots[program.calls[0].arguments[place].slot].filling for place in (1, 2))
    assert (indices.low, indices.high) == (0, 59)
    assert (offsets.high, offsets.has_last) == (60, True)


def test_lookups_that_are_not_pooled_are_rows(tmp_path):
    program = looked_up(tmp_path, widths=8, num_tables=1, batch=4, pooling=2)
    assert [call.operator for call in program.calls] == ["aten::embedding"]


def test_tables_that_cannot_be_equally_wide_are_left_out_with_the_reason(tmp_path):
    with pytest.raises(TraceError, match="cannot be equally wide"):
        looked_up(tmp_path, widths=25)
