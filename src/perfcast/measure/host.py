"""Time of the program around its kernels, from tiny steps in which it is nearly all the time.

Two tiny models (plain modules, and a transformer as a library writes it) run a forward, a forward with
backward, and an optimizer; what their kernels take by the fitted lines is subtracted.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from perfcast.core.graph import Graph, Phase
from perfcast.cost.families import family_of, features_of
from perfcast.cost.linear import line_seconds
from perfcast.cost.profile import Line
from perfcast.measure.steps import CPU_OPTIMIZER, step_of
from perfcast.workload.capture.capture import CaptureOptions, capture
from perfcast.workload.models.huggingface import build_program
from perfcast.workload.shape import StepShape
from perfcast.workload.step import OptimizerChoice, Program, build_optimizer, run_forward_backward

MODES = ("forward", "backward", "optimizer")
_NO_OPTIMIZER = OptimizerChoice("none")


class _Plain(nn.Module):
    """Linear, norm and activation in a chain, as small as they go."""

    def __init__(self) -> None:
        super().__init__()
        blocks = [
            nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 8), nn.ReLU())
            for _ in range(12)
        ]
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + block(x)
        return x.mean()


def _plain_program() -> Program:
    return Program(_Plain(), args=(torch.full((4, 8), 0.5),), batch_size=4)


def _transformer_program() -> Program:
    config = {
        "model_type": "opt",
        "hidden_size": 16,
        "num_hidden_layers": 6,
        "num_attention_heads": 2,
        "ffn_dim": 32,
        "vocab_size": 64,
        "max_position_embeddings": 32,
        "word_embed_proj_dim": 16,
        "dropout": 0.0,
    }
    return build_program(config, None, StepShape(mode="train", batch_size=2, sequence_length=8))


PROGRAMS: Mapping[str, Callable[[], Program]] = {"plain": _plain_program, "transformer": _transformer_program}


@dataclass(frozen=True)
class HostCase:
    """One part of a tiny step."""

    key: str
    build: Callable[[], Program]
    mode: str

    def prepare(self) -> Callable[[], None]:
        """A call that runs it."""
        program = self.build()
        if self.mode != "optimizer":
            return step_of(program, self.mode == "backward", _NO_OPTIMIZER)
        program.module.train()
        optimizer = build_optimizer(CPU_OPTIMIZER, program.module)
        run_forward_backward(program)
        return lambda: optimizer.step() and None

    def graph(self) -> Graph:
        """What it runs."""
        optimizer = CPU_OPTIMIZER if self.mode == "optimizer" else _NO_OPTIMIZER
        options = CaptureOptions(training=self.mode != "forward", for_accelerator=False, optimizer=optimizer)
        return capture(self.build, options)[0]


def host_cases() -> list[HostCase]:
    """Every tiny program in every mode."""
    return [
        HostCase(f"host {name} {mode}", build, mode) for name, build in PROGRAMS.items() for mode in MODES
    ]


def fit_host(seconds: Mapping[str, float], lines: tuple[Line, ...]) -> tuple[float, float]:
    """(seconds per operation of forward and backward, seconds per update of a looping optimizer)."""
    by_key = {(line.family, line.dtype): line for line in lines}
    host: list[float] = []
    updates: list[float] = []
    for case in sorted(host_cases(), key=lambda c: c.mode == "optimizer"):
        if case.key not in seconds:
            continue
        graph = case.graph()
        phases = (Phase.OPTIMIZER,) if case.mode == "optimizer" else (Phase.FORWARD, Phase.BACKWARD)
        counts = Counter(n.operation for n in graph.nodes if n.phase in phases)
        kernels, issued, updating = 0.0, 0, 0
        for index, count in counts.items():
            operation = graph.operations[index]
            if operation.is_free:
                continue
            features = features_of(operation)
            line = by_key.get((features.family, "fp32"))
            kernels += count * line_seconds(line, features)[0] if line else 0.0
            issued += count
            updating += count if family_of(operation) == "update" else 0
        rest = seconds[case.key] - kernels
        if case.mode == "optimizer":
            others = (issued - updating) * (statistics.mean(host) if host else 0.0)
            updates.append(max(rest - others, 0.0) / max(updating, 1))
        else:
            host.append(max(rest, 0.0) / max(issued, 1))
    return (statistics.mean(host) if host else 0.0, statistics.mean(updates) if updates else 0.0)
