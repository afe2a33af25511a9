"""Folded and full captures are the same graph, whatever the layers are; and layers really are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from perfcast.core.graph import Graph, Phase
from perfcast.memory_use.liveness import estimate_memory
from perfcast.workload.capture.capture import CaptureOptions, capture
from perfcast.workload.capture.fold import LayerRun, find_layer_runs
from perfcast.workload.models.huggingface import build_program
from perfcast.workload.shape import StepShape
from perfcast.workload.step import OptimizerChoice, Program

TINY = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 2}
GPT2 = {"model_type": "gpt2", "n_layer": 8, "n_embd": 32, "n_head": 2, "vocab_size": 64, "n_positions": 32}
LLAMA = {**TINY, "model_type": "llama", "num_hidden_layers": 8, "num_key_value_heads": 1}
T5 = {"model_type": "t5", "num_layers": 8, "num_decoder_layers": 8, "d_model": 32, "d_kv": 16, "d_ff": 48,
      "num_heads": 2, "vocab_size": 64, "decoder_start_token_id": 0}  # fmt: skip
DEEPSEEK = {**TINY, "model_type": "deepseek_v3", "num_hidden_layers": 9, "first_k_dense_replace": 2,
            "num_key_value_heads": 2, "moe_intermediate_size": 16, "n_routed_experts": 8, "n_group": 2,
            "num_experts_per_tok": 2, "topk_group": 1, "n_shared_experts": 1, "q_lora_rank": 16,
            "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8}  # fmt: skip
GEMMA3 = {**TINY, "model_type": "gemma3_text", "num_hidden_layers": 14, "num_key_value_heads": 1,
          "head_dim": 16, "sliding_window": 4,
          "layer_types": ["sliding_attention", "full_attention"] * 7}  # fmt: skip


class Block(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = (
            nn.LayerNorm(width),
            nn.Linear(width, hidden),
            nn.Linear(hidden, width),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x))))


class OddEnds(nn.Module):
    """Nine blocks of which the first and the last are wider inside."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Block(16, 64 if i in (0, 8) else 32) for i in range(9)])
        self.head = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Dense(nn.Module):
    """Every block reads the sum of all before it: the layers look equal, their inputs do not."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Block(16, 32) for _ in range(8)])

    def forward(self, x: Tensor) -> Tensor:
        outputs = [x]
        for layer in self.layers:
            outputs.append(layer(torch.stack(outputs).sum(0)))
        return outputs[-1]


class CollectsAll(nn.Module):
    """A plain chain, whose intermediate results are all used after it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Block(16, 32) for _ in range(8)])

    def forward(self, x: Tensor) -> Tensor:
        outputs = []
        for layer in self.layers:
            x = layer(x)
            outputs.append(x)
        return torch.cat(outputs, dim=-1)


class OutOfOrder(nn.Module):
    """Equal layers that run last to first."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Block(16, 32) for _ in range(8)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in reversed(self.layers):
            x = layer(x)
        return x


class ByIndex(nn.Module):
    """Equal layers, of which the loop treats every other one differently."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Block(16, 32) for _ in range(8)])

    def forward(self, x: Tensor) -> Tensor:
        for i, layer in enumerate(self.layers):
            x = layer(torch.tanh(x) if i % 2 else x)
        return x


class TwoStacks(nn.Module):
    """Two runs, one after the other, with a value of before both used at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(*[Block(16, 32) for _ in range(7)])
        self.second = nn.Sequential(*[Block(16, 24) for _ in range(6)])

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x)) * x


def plain(module: Callable[[], nn.Module]) -> Callable[[], Program]:
    return lambda: Program(module(), args=(torch.zeros(3, 16),), batch_size=3)


def hf(config: dict[str, Any], architecture: str, **shape: Any) -> Callable[[], Program]:
    settings = {"batch_size": 2, "sequence_length": 8} | shape
    return lambda: build_program(dict(config), architecture, StepShape(**settings))


@dataclass(frozen=True)
class Case:
    """A program, and how many layers of each container run when it is folded."""

    build: Callable[[], Program]
    layers_run: dict[str, int]
    options: dict[str, Any] = field(default_factory=dict)


GPT2_LAYERS, INFERENCE = {"transformer.h": 4}, {"training": False}
FOLDING = {
    "gpt2": Case(hf(GPT2, "GPT2LMHeadModel"), GPT2_LAYERS),
    "gpt2-as-the-processor-runs-it": Case(
        hf(GPT2, "GPT2LMHeadModel"), GPT2_LAYERS, {"for_accelerator": False}
    ),
    "gpt2-mixed-precision": Case(
        hf(GPT2, "GPT2LMHeadModel"), GPT2_LAYERS, {"autocast_dtype": torch.bfloat16}
    ),
    "gpt2-checkpointed": Case(hf(GPT2, "GPT2LMHeadModel", recompute="full"), GPT2_LAYERS),
    "gpt2-two-micro-batches": Case(hf(GPT2, "GPT2LMHeadModel"), GPT2_LAYERS, {"num_micro_batches": 2}),
    "gpt2-mixed-precision-six-micro-batches": Case(
        hf(GPT2, "GPT2LMHeadModel"), GPT2_LAYERS, {"autocast_dtype": torch.bfloat16, "num_micro_batches": 6}
    ),
    "gpt2-checkpointed-five-micro-batches": Case(
        hf(GPT2, "GPT2LMHeadModel", recompute="full"), GPT2_LAYERS, {"num_micro_batches": 5}
    ),
    "two-stacks-seven-micro-batches": Case(
        plain(TwoStacks), {"first": 4, "second": 4}, {"num_micro_batches": 7}
    ),
    "gpt2-fused-sgd": Case(
        hf(GPT2, "GPT2LMHeadModel"), GPT2_LAYERS, {"optimizer": OptimizerChoice("momentum", "fused")}
    ),
    "t5": Case(hf(T5, "T5ForConditionalGeneration"), {"encoder.block": 5, "decoder.block": 5}),
    "deepseek-v3": Case(hf(DEEPSEEK, "DeepseekV3ForCausalLM"), {"model.layers": 6}),
    "gemma3-layers-in-pairs": Case(hf(GEMMA3, "Gemma3ForCausalLM"), {"model.layers": 8}),
    "llama-prefill": Case(hf(LLAMA, "LlamaForCausalLM", mode="prefill"), {"model.layers": 4}, INFERENCE),
    "llama-decode": Case(hf(LLAMA, "LlamaForCausalLM", mode="decode"), {"model.layers": 4}, INFERENCE),
    "t5-decode": Case(
        hf(T5, "T5ForConditionalGeneration", mode="decode"),
        {"encoder.block": 0, "decoder.block": 8},
        INFERENCE,
    ),
    "odd-first-and-last": Case(plain(OddEnds), {"layers": 6}),
    "two-stacks": Case(plain(TwoStacks), {"first": 4, "second": 4}),
}
FALLING_BACK = {
    "dense-connections-six-micro-batches": Case(plain(Dense), {"layers": 8}, {"num_micro_batches": 6}),
    "dense-connections": Case(plain(Dense), {"layers": 8}),
    "all-results-collected": Case(plain(CollectsAll), {"layers": 8}),
    "last-to-first": Case(plain(OutOfOrder), {"layers": 8}),
    "loop-treats-layers-differently": Case(plain(ByIndex), {"layers": 8}),
}
CASES = FOLDING | FALLING_BACK


def captured(case: Case, fold: bool) -> tuple[Graph, Counter[tuple[str, int]]]:
    """The graph, and how often each layer ran (keyed by container and index)."""
    ran: Counter[tuple[str, int]] = Counter()

    def build() -> Program:
        program = case.build()
        for container in case.layers_run:
            layers = program.module.get_submodule(container)
            for index, layer in enumerate(layers.children()):
                layer.register_forward_pre_hook(lambda *_, key=(container, index): ran.update([key]))
        return program

    graph, _ = capture(build, CaptureOptions(fold_layers=fold, **case.options))
    return graph, ran


def sequence(graph: Graph) -> list[Any]:
    return [(graph.operations[n.operation], n.phase, n.module, n.recomputed) for n in graph.nodes]


def storages(graph: Graph) -> Counter[Any]:
    return Counter(
        (s.num_bytes, s.category, s.created_by, s.freed_after) for s in graph.storages if s.num_bytes
    )


def data_flow(graph: Graph) -> list[Any]:
    """Which node's output each input is: storages by the node that made them, types in full."""

    def seen(tensor: int) -> Any:
        storage = graph.storages[graph.tensors[tensor].storage]
        return graph.tensors[tensor].type, storage.num_bytes, storage.created_by, storage.freed_after

    return [([seen(t) for t in n.inputs], [seen(t) for t in n.outputs]) for n in graph.nodes]


@pytest.mark.parametrize("name", CASES)
def test_a_folded_capture_equals_the_full_one(name: str):
    case = CASES[name]
    (folded, ran), (full, ran_in_full) = captured(case, fold=True), captured(case, fold=False)
    assert len(folded.nodes) == len(full.nodes)
    for index, (mine, other) in enumerate(zip(sequence(folded), sequence(full), strict=True)):
        assert mine == other, f"node {index}"
    assert data_flow(folded) == data_flow(full)
    assert storages(folded) == storages(full)
    memory, expected = estimate_memory(folded, 1), estimate_memory(full, 1)
    assert memory.timeline_bytes == expected.timeline_bytes
    assert memory.timeline_bytes_by_category == expected.timeline_bytes_by_category
    assert memory.peak_by_last_use_bytes == expected.peak_by_last_use_bytes
    assert (memory.peak_bytes, memory.peak_node) == (expected.peak_bytes, expected.peak_node)
    assert (folded.flops, folded.recompute_flops) == (full.flops, full.recompute_flops)
    assert folded.parameter_count == full.parameter_count
    assert layers_that_ran(ran) == Counter({c: n for c, n in case.layers_run.items() if n})
    leaves_layers_out = ran.keys() < ran_in_full.keys()
    assert leaves_layers_out == (name in FOLDING and name != "t5-decode")


def layers_that_ran(ran: Counter[tuple[str, int]]) -> Counter[str]:
    return Counter(container for container, _ in ran)


# ---- which layers repeat -----------------------------------------------------------------------------


def runs_of(module: nn.Module) -> list[LayerRun]:
    return find_layer_runs(module)


def test_odd_ends_are_left_out_of_a_run():
    assert runs_of(OddEnds()) == [LayerRun("layers", 1, 1, 7)]


def test_a_pattern_of_two_is_one_run_with_a_period_of_two():
    module = nn.Sequential(*[Block(16, 32 if i % 2 else 24) for i in range(13)])
    (run,) = runs_of(nn.ModuleDict({"blocks": module}))
    assert (run.container, run.period, run.num_units) == ("blocks", 2, 6)


def test_five_layers_are_too_few_to_save_anything():
    assert runs_of(nn.ModuleDict({"blocks": nn.Sequential(*[Block(16, 32) for _ in range(5)])})) == []


def test_layers_that_share_a_parameter_do_not_repeat():
    blocks = [Block(16, 32) for _ in range(8)]
    blocks[5].up.weight = blocks[2].up.weight
    assert runs_of(nn.ModuleDict({"blocks": nn.Sequential(*blocks)})) == []


def test_a_frozen_layer_is_not_equal_to_one_that_trains():
    blocks = [Block(16, 32) for _ in range(8)]
    blocks[4].requires_grad_(False)
    assert runs_of(nn.ModuleDict({"blocks": nn.Sequential(*blocks)})) == []


@pytest.mark.parametrize("change", [{"p": 0.5}, {"inplace": True}])
def test_an_attribute_tells_layers_apart(change: dict[str, Any]):
    layers = [nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.1)) for _ in range(8)]
    for name, value in change.items():
        setattr(layers[3][1], name, value)
    assert runs_of(nn.ModuleDict({"blocks": nn.Sequential(*layers)})) == []


def test_a_container_inside_a_run_is_not_another_run():
    def layer() -> nn.Sequential:
        return nn.Sequential(*[nn.Linear(4, 4) for _ in range(6)])

    runs = runs_of(nn.ModuleDict({"blocks": nn.Sequential(*[layer() for _ in range(6)])}))
    assert [run.container for run in runs] == ["blocks"]


def test_the_module_is_whole_again_after_a_folded_capture():
    module = OddEnds()
    layers = list(module.layers)
    capture(lambda: Program(module, args=(torch.zeros(3, 16),)), CaptureOptions())
    assert list(module.layers) == layers
    assert not any(layer._forward_hooks or layer._forward_pre_hooks for layer in layers)
    assert all(parameter.grad is None for parameter in module.parameters())


def test_the_backward_of_a_folded_layer_carries_its_own_index():
    graph, _ = captured(FOLDING["gpt2"], fold=True)
    modules = {
        (n.module.split(".")[2], n.phase) for n in graph.nodes if n.module.startswith("transformer.h.")
    }
    assert modules >= {(str(i), phase) for i in range(8) for phase in (Phase.FORWARD, Phase.BACKWARD)}
