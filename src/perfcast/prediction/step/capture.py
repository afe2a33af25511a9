"""Programs, and models that no closed form describes, under a plan: captured whole, then cut."""

from __future__ import annotations

from perfcast.core.hardware import Device
from perfcast.core.mode import Mode
from perfcast.core.plan import Plan
from perfcast.core.training import DTYPES, Training
from perfcast.core.words import known_word
from perfcast.core.work import StepWork
from perfcast.errors import ModelError
from perfcast.prediction.one_device.graph import build_graph
from perfcast.prediction.plan.memory import read_model, to_transformer
from perfcast.prediction.request import Request
from perfcast.prediction.step.work import StepFacts

#: transformers' name of what a plan calls kernels of attention.
_ATTENTION = {"flash": "sdpa", "math": "eager"}


def has_closed_form(model: str) -> bool:
    """Whether the sizes of a model say what its ranks run; else it is captured.

    Raises:
        InputError: Unknown or unreadable.
    """
    if ".py:" in model:
        return False
    config, architecture, _ = read_model(model)
    try:
        to_transformer(config, architecture, model)
    except ModelError:
        return False
    return True


def capture_work(
    model: str,
    plan: Plan,
    device: Device,
    *,
    mode: Mode = "train",
    training: Training | None = None,
    dtype: str = "bf16",
    sequence_length: int | None = None,
) -> tuple[StepFacts, StepWork]:
    """One micro-batch of one replica, captured and cut by the plan.

    Args:
        model: ``FILE.py:FUNCTION``, a catalog name, a Hugging Face config.json or its folder.
        training: By default AdamW in ``dtype``, run by PyTorch.

    Raises:
        InputError: What cannot be captured, or a plan that cannot cut its graph.
    """
    from perfcast.workload.shard import MEGATRON_DDP, TORCH_DDP, shard_graph

    if mode == "train":
        training = training or Training(dtype=known_word("dtype", dtype, DTYPES))
        dtype = training.dtype
    else:
        training = None
    request = Request(
        model=model,
        mode=mode,
        batch_size=plan.micro_batch_size,
        sequence_length=sequence_length,
        dtype=dtype,
        optimizer="none" if training is None else training.optimizer,
        attention="sdpa" if training is None else _ATTENTION[training.attention],
        recompute=plan.recompute,
    )
    graph, program = build_graph(request, device)
    is_megatron = training is not None and training.framework.startswith("megatron")
    work = shard_graph(graph, plan, reduction=MEGATRON_DDP if is_megatron else TORCH_DDP)
    length = program.sequence_length or 1
    return StepFacts(model, plan, mode, training, dtype, length, graph.parameter_count, True), work
