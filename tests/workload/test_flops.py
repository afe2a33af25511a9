"""Captured flops against PyTorch's flop counter on the same model, run eagerly."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from perfcast.catalogs.models import ModelEntry, load_model
from perfcast.workload.capture.capture import CaptureOptions, capture
from perfcast.workload.models.huggingface import build_program
from perfcast.workload.shape import StepShape

CASES = {
    "gpt2-large": (None, 2, 1024),
    "bert-large": (None, 2, 512),
    "llama3-8b": (4, 1, 2048),
    "vit-l-16": (None, 2, None),
    "resnet-50": (None, 4, None),
    "t5-base": (None, 2, 512),
    "mixtral-8x7b": (2, 1, 128),
}


def config_of(entry: ModelEntry, num_layers: int | None) -> dict[str, Any]:
    return dict(entry.config) | ({"num_hidden_layers": num_layers} if num_layers else {})


def counted_flops(
    entry: ModelEntry,
    config: dict[str, Any],
    mode: str,
    batch_size: int,
    length: int | None,
    monkeypatch: Any,
) -> int:
    """PyTorch's count of an eager run: no fused attention, experts as batched products."""
    import transformers

    # A truncated normal draws until all values are in range, which symbolic values never are.
    monkeypatch.setattr(torch.nn.init, "_no_grad_trunc_normal_", lambda tensor, *a, **k: tensor)
    model_type = config.pop("model_type")
    experts = {"experts_implementation": "batched_mm"} if "num_local_experts" in config else {}
    with FakeTensorMode(allow_non_fake_inputs=True):
        parsed = transformers.AutoConfig.for_model(model_type, **config)
        parsed.use_cache = False
        builder = getattr(transformers, entry.architecture)
        module = builder._from_config(parsed, attn_implementation="eager", **experts)
        module.train(mode == "train")
        if length is None:
            size = getattr(parsed, "image_size", 224)
            inputs = {"pixel_values": torch.zeros(batch_size, 3, size, size)}
            labels = torch.zeros(batch_size, dtype=torch.int64)
        else:
            labels = torch.zeros(batch_size, length, dtype=torch.int64)
            inputs = {"input_ids": labels}
            if entry.task == "seq2seq-lm" and mode != "train":
                inputs["decoder_input_ids"] = labels
        with FlopCounterMode(display=False) as counter:
            if mode == "train":
                module(**inputs, labels=labels).loss.backward()
            else:
                with torch.no_grad():
                    module(**inputs)
    return counter.get_total_flops()


@pytest.mark.parametrize("mode", ["train", "prefill"])
@pytest.mark.parametrize("name", CASES)
def test_flops_equal_pytorchs_counter_exactly(name: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    num_layers, batch_size, length = CASES[name]
    entry = load_model(name)
    shape = StepShape(mode=mode, batch_size=batch_size, sequence_length=length, dtype="bf16")
    options = CaptureOptions(training=mode == "train", autocast_dtype=shape.autocast_dtype)
    graph, _ = capture(
        lambda: build_program(config_of(entry, num_layers), entry.architecture, shape), options
    )
    counted = counted_flops(entry, config_of(entry, num_layers), mode, batch_size, length, monkeypatch)
    assert graph.flops == counted


def test_recomputation_inside_a_flash_backward_is_listed_apart() -> None:
    """Scores again, for every layer: 2·batch·heads·s·s·head_size, of which a causal kernel does half."""
    batch_size, length, layers, heads, head_size = 1, 128, 12, 12, 64
    entry = load_model("gpt2")
    shape = StepShape(batch_size=batch_size, sequence_length=length)
    graph, _ = capture(lambda: build_program(entry.config, entry.architecture, shape), CaptureOptions())
    pairs = length * (length + 1) // 2
    assert graph.recompute_flops == layers * batch_size * heads * 2 * pairs * head_size
