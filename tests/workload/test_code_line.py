"""Each storage carries the line of the program that asked for it, in the backward that of its forward."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from perfcast.core.graph import Graph, Phase
from perfcast.workload.capture.capture import CaptureOptions, capture
from perfcast.workload.capture.code_line import CodeLines
from perfcast.workload.step import OptimizerChoice, Program

OPTIONS = CaptureOptions(optimizer=OptimizerChoice("adamw", "foreach"))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.up(x)  # line: up
        hidden = torch.tanh(hidden)  # line: tanh
        return x + self.down(hidden)  # line: down


class Stack(nn.Module):
    def __init__(self, num_blocks: int = 2, checkpoints: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(num_blocks)])
        self.checkpoints = checkpoints

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpoints else block(x)
        return x


def line(mark: str) -> str:
    """``file:line in function`` of the line of ``Block.forward`` that is marked so."""
    texts = Path(__file__).read_text(encoding="utf-8").splitlines()
    number = next(i for i, text in enumerate(texts, 1) if text.endswith(f"# line: {mark}"))
    return f"{Path(__file__).name}:{number} in Block.forward"


def captured(
    module_of: type[nn.Module] = Stack, options: CaptureOptions = OPTIONS, **changes: object
) -> Graph:
    graph, _ = capture(lambda: Program(module_of(**changes), (torch.zeros(4, 8),)), options)
    return graph


def lines_by_operation(graph: Graph, phase: Phase) -> set[tuple[str, str]]:
    made = [(s.created_by, s.created_at) for s in graph.storages if s.created_by >= 0]
    return {
        (graph.operations[graph.nodes[node].operation].name, created_at)
        for node, created_at in made
        if graph.nodes[node].phase is phase and graph.nodes[node].module.startswith("blocks.")
    }


def test_a_forward_storage_carries_the_innermost_line_of_the_program() -> None:
    expected = {("addmm", line("up")), ("addmm", line("down")), ("tanh", line("tanh")), ("add", line("down"))}
    assert lines_by_operation(captured(), Phase.FORWARD) == expected


def test_a_backward_storage_carries_the_line_of_its_forward() -> None:
    lines = lines_by_operation(captured(), Phase.BACKWARD)
    assert ("tanh_backward", line("tanh")) in lines
    assert {("mm", line("up")), ("mm", line("down"))} <= lines
    assert {created_at for _, created_at in lines} <= {line("up"), line("tanh"), line("down")}


def test_what_is_computed_again_carries_the_line_that_computes_it() -> None:
    graph = captured(checkpoints=True)
    again = {
        s.created_at for s in graph.storages if s.created_by >= 0 and graph.nodes[s.created_by].recomputed
    }
    assert again == {line("up"), line("tanh")}  # it stops once all that was saved is there again
    assert ("tanh_backward", line("tanh")) in lines_by_operation(graph, Phase.BACKWARD)


def test_parameters_and_what_the_optimizer_makes_have_no_line() -> None:
    graph = captured()
    for storage in graph.storages:
        if storage.created_by < 0 or graph.nodes[storage.created_by].phase is Phase.OPTIMIZER:
            assert storage.created_at == ""


def test_layers_that_are_written_out_carry_the_lines_of_those_that_ran() -> None:
    folded = captured(num_blocks=9)
    full = captured(num_blocks=9, options=CaptureOptions(optimizer=OPTIONS.optimizer, fold_layers=False))
    rows = [
        sorted((s.created_by, s.num_bytes, s.created_at) for s in graph.storages) for graph in (folded, full)
    ]
    assert rows[0] == rows[1]


def test_a_line_run_outside_a_program_is_named_by_file_line_and_function() -> None:
    number = sys._getframe().f_lineno + 1
    name = CodeLines().running()
    assert name == (
        f"test_code_line.py:{number} in test_a_line_run_outside_a_program_is_named_by_file_line_and_function"
    )


def test_an_autograd_node_belongs_to_the_first_mark_after_it() -> None:
    lines = CodeLines()
    lines.mark(3, "a")  # nodes 0, 1, 2
    lines.mark(3, "makes no node")
    lines.mark(5, "b")  # nodes 3, 4
    assert [lines.of_backward(n) for n in (0, 2, 3, 4, 5)] == ["a", "a", "b", "b", ""]
