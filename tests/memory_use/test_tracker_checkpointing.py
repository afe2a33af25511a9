"""The peak of steps that run parts of their forward again, against PyTorch's memory tracker.

Compared is the second of two training steps with AdamW on real tensors, watched by ``MemTracker``, with a
capture of the step in which nothing is allocated. The tracker's own hooks on a module's backward are
left out: they hold the gradient of a module's first input until those of all inputs are known, which for
an encoder's output, read by every layer of a decoder, is when the decoder's backward is over.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed._tools import mod_tracker
from torch.distributed._tools.mem_tracker import MemTracker
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from parallel_programs import Block
from perfcast.core.graph import Graph
from perfcast.memory_use.liveness import estimate_memory
from perfcast.workload.capture.capture import CaptureOptions, capture
from perfcast.workload.step import OptimizerChoice, Program, build_optimizer, run_training_step
from small_models import LLAMA, T5, hugging_face

ADAMW = OptimizerChoice("adamw", "loop")
PRODUCTS = (torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default)


def keep_products(context: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE if operator in PRODUCTS else CheckpointPolicy.PREFER_RECOMPUTE


class Layers(nn.Module):
    """A transformer whose layers run as ``call(index, layer, x)`` says."""

    def __init__(self, call: Callable[[int, nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(50, 48), nn.Linear(48, 50)
        self.blocks = nn.ModuleList(Block(48) for _ in range(3))
        self.call = call

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for index, block in enumerate(self.blocks):
            x = self.call(index, block, x)
        return self.head(x)


again = partial(checkpoint, use_reentrant=False)
selective = partial(create_selective_checkpoint_contexts, keep_products)

CALLS: dict[str, Callable[[int, nn.Module, Tensor], Tensor]] = {
    "kept": lambda i, layer, x: layer(x),
    "again": lambda i, layer, x: again(layer, x),
    "again, to its end": lambda i, layer, x: again(layer, x, early_stop=False),
    "again, by reentering": lambda i, layer, x: checkpoint(layer, x, use_reentrant=True),
    "every second layer": lambda i, layer, x: again(layer, x) if i % 2 else layer(x),
    "within another": lambda i, layer, x: again(lambda y: again(layer, y) * 2, x),
    "all but products": lambda i, layer, x: again(layer, x, context_fn=selective),
}


def layers(name: str) -> Program:
    return Program(Layers(CALLS[name]), args=(torch.zeros(4, 16, dtype=torch.int64),))


FEW_LAYERS = {"num_hidden_layers": 4}
PROGRAMS: dict[str, Callable[[], Program]] = {
    **{name: partial(layers, name) for name in CALLS},
    "llama": hugging_face("LlamaForCausalLM", LLAMA | FEW_LAYERS, 2, 32, recompute="full"),
    "t5": hugging_face(
        "T5ForConditionalGeneration", T5 | {"num_layers": 1, "num_decoder_layers": 3}, 2, 32, recompute="full"
    ),
}


def capture_of(build: Callable[[], Program]) -> Graph:
    return capture(build, CaptureOptions(for_accelerator=False, optimizer=ADAMW))[0]


class NoHandle:
    def remove(self) -> None:
        pass


def tracked_peak_bytes(build: Callable[[], Program]) -> int:
    program = build()
    program.module.train()
    optimizer = build_optimizer(ADAMW, program.module)
    run_training_step(program, optimizer)
    inputs = torch.utils._pytree.tree_leaves((program.args, dict(program.kwargs)))
    tracker = MemTracker()
    tracker.track_external(program.module, optimizer, *[t for t in inputs if isinstance(t, Tensor)])
    with tracker:
        run_training_step(program, optimizer)
    return tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_peak_equals_the_trackers_to_the_byte(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mod_tracker, "register_multi_grad_hook", lambda *args, **kwargs: NoHandle())
    build = PROGRAMS[name]
    assert estimate_memory(capture_of(build), 0).peak_bytes == tracked_peak_bytes(build)


def test_the_more_is_run_again_the_less_is_held() -> None:
    peaks = [
        estimate_memory(capture_of(PROGRAMS[name]), 0).peak_bytes
        for name in ("kept", "all but products", "again")
    ]
    assert peaks == sorted(peaks, reverse=True)
    assert len(set(peaks)) == 3


def test_products_that_are_kept_are_not_run_again() -> None:
    names = {
        name: {g.operations[n.operation].name for n in g.nodes if n.recomputed}
        for name, g in ((name, capture_of(PROGRAMS[name])) for name in ("again", "all but products"))
    }
    assert {"addmm", "bmm"} <= names["again"]
    assert not {"addmm", "bmm"} & names["all but products"]
    assert "native_layer_norm" in names["all but products"]
