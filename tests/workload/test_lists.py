"""Operators over lists that are not run because they change nothing that a capture writes down."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch
from torch import nn

from perfcast.core.graph import Graph
from perfcast.torch_internals.eager import FakeTensorMode, TorchDispatchMode
from perfcast.workload.capture import capture as of_capture
from perfcast.workload.capture.lists import ListsWrittenInPlace
from perfcast.workload.step import OPTIMIZER_NAMES, OptimizerChoice, Program


class Seen(TorchDispatchMode):
    """Names of what reaches it."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func._schema.name)
        return func(*args, **(kwargs or {}))


def captured(choice: OptimizerChoice) -> Graph:
    def build() -> Program:
        module = nn.Sequential(nn.Embedding(16, 8), nn.LayerNorm(8), nn.Linear(8, 4, dtype=torch.float32))
        return Program(module, args=(torch.zeros(2, 3, dtype=torch.long),))

    return of_capture.capture(build, of_capture.CaptureOptions(optimizer=choice))[0]


@pytest.mark.parametrize("implementation", ["fused", "foreach", "loop"])
@pytest.mark.parametrize("name", [name for name in OPTIMIZER_NAMES if name != "none"])
def test_a_captured_step_is_the_same_with_every_list_operator_run(
    name: str, implementation: str, monkeypatch: pytest.MonkeyPatch
):
    choice = OptimizerChoice(name, implementation)
    without = captured(choice)
    monkeypatch.setattr(of_capture, "ListsWrittenInPlace", nullcontext)
    assert captured(choice) == without


@pytest.mark.parametrize(
    ("call", "runs"),
    [
        (lambda lists: torch._foreach_mul_(lists, 2.0), False),
        (lambda lists: torch._foreach_addcdiv_(lists, lists, lists), False),
        (lambda lists: torch._foreach_mul(lists, 2.0), True),  # what it makes is new
        (lambda lists: lists[0].mul_(2.0), True),
    ],
)
def test_only_lists_written_in_place_are_left_alone(call: Callable[[list[torch.Tensor]], object], runs: bool):
    with FakeTensorMode():
        lists = [torch.empty(3), torch.empty(4, 5)]
        with Seen() as seen, ListsWrittenInPlace():
            call(lists)
    assert bool(seen.names) == runs


def test_counts_of_steps_are_followed_by_value():
    with FakeTensorMode(), ListsWrittenInPlace():
        counts = [torch.tensor(0.0), torch.tensor(4.0)]
        torch._foreach_add_(counts, 1)
        assert [count.item() for count in counts] == [1.0, 5.0]


def test_lists_of_real_tensors_are_written():
    values = [torch.zeros(2), torch.zeros(3)]
    with ListsWrittenInPlace():
        torch._foreach_add_(values, 1)
    assert [value.tolist() for value in values] == [[1.0, 1.0], [1.0, 1.0, 1.0]]
