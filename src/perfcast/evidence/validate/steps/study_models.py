"""The programs that the study timed on one device, as its scripts and its transformers ran them.

sitar-lab/NeuSight, neusight/Tracing/trace.py (``get_model``, ``measure_e2e``):

* classes by mode: of BERT a pretraining model in training and a classifier of sequences in inference;
* forward and backward are timed apart; the cross entropy of the logits is computed between the two;
* gradients are never reset, so every backward adds to those that are there.

Its operators (the recorded graphs) are those of transformers 4.36 to 4.47, whose attention ran more kernels
than today's: GPT-2 divides the scores and selects by a mask of the model; BERT divides and adds a row of the
mask; OPT copies heads to the front, adds a mask for every sequence, and takes the larger of each score and
the least number (models/gpt2, models/bert, models/opt: ``_attn``, ``BertSelfAttention``, ``OPTAttention``).
Nothing is kept in a cache by a kernel. An expert of the Switch Transformer works on as many rows as its
capacity for every sequence, filled or not (``custom_switchtransmlp_forward`` in the study's trace.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MethodType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from perfcast.catalogs.models import load_model
from perfcast.core.graph import Graph
from perfcast.core.operation import OperationKind
from perfcast.errors import InputError
from perfcast.prediction import Request
from perfcast.workload.step import OptimizerChoice, Program

#: Of a model type and whether it trains; others are of the class that their configuration names.
_CLASSES: Mapping[tuple[str, bool], str] = {
    ("bert", True): "BertForPreTraining",
    ("bert", False): "BertForSequenceClassification",
}
#: Operators whose result these programs' host reads before it goes on: how many rows a mask chooses.
HOST_READS = frozenset({"count_nonzero"})
#: Of the forward's operators, those that ran between the two timed parts.
_LOSS = frozenset({"_log_softmax", "nll_loss_forward"})


def capture_study_step(request: Request) -> Graph:
    """What was timed of a step of one device, on symbolic tensors.

    Raises:
        InputError: The model cannot be built or captured.
    """
    from perfcast.workload.capture.capture import CaptureOptions, capture

    training = request.mode == "train"
    options = CaptureOptions(training=training, optimizer=OptimizerChoice("none"))
    graph, _ = capture(lambda: build_study_program(request), options)
    return _without_loss(graph)


def build_study_program(request: Request) -> Program:
    """A model of the study in the form and with the inputs that it was timed with."""
    from perfcast.workload.models.huggingface import build_program
    from perfcast.workload.shape import StepShape

    entry = load_model(request.title)
    training = request.mode == "train"
    if "model_type" not in entry.config:
        raise InputError(f"{request.model} is no model of the study, which are Hugging Face's")
    model_type = str(entry.config["model_type"])
    shape = StepShape(
        mode=request.mode,
        batch_size=request.batch_size,
        sequence_length=request.sequence_length,
        dtype=request.dtype,
        attention=_register_attention(model_type),
    )
    architecture = _CLASSES.get((model_type, training), entry.architecture)
    program = build_program(entry.config, architecture, shape)
    for experts in (m for m in program.module.modules() if type(m).__name__ == "SwitchTransformersExperts"):
        rows = shape.batch_size * int(entry.config["expert_capacity"])
        experts.forward = MethodType(partial(_run_experts, rows=rows), experts)
    inputs = {"input_ids": program.kwargs["input_ids"]}
    if _is_encoder_decoder(program.module):
        inputs["decoder_input_ids"] = inputs["input_ids"].clone()
    elif "use_cache" in program.kwargs:
        inputs["use_cache"] = False
    if training:
        for parameter in program.module.parameters():
            parameter.grad = torch.empty_like(parameter)
    return replace(program, kwargs=inputs, loss_function=_loss_over(inputs["input_ids"]))


def _is_encoder_decoder(module: Any) -> bool:
    return bool(module.config.is_encoder_decoder)


def _loss_over(tokens: Tensor) -> Callable[[Any], Tensor]:
    """Cross entropy of the logits with the tokens that went in."""

    def loss(output: Any) -> Tensor:
        logits = getattr(output, "prediction_logits", None)
        logits = output.logits if logits is None else logits
        return functional.cross_entropy(logits.view(-1, logits.shape[-1]), tokens.view(-1))

    return loss


def _without_loss(graph: Graph) -> Graph:
    """With no kernel where one ran between the timed forward and the timed backward; its memory stays."""
    operations = tuple(
        replace(o, kind=OperationKind.ALLOCATION, flops=0, executed_flops=0, memory_traffic_bytes=0)
        if o.name in _LOSS
        else o
        for o in graph.operations
    )
    return replace(graph, operations=operations)


def _run_experts(experts: Any, tokens: Tensor, chosen: Tensor, weights: Tensor, rows: int) -> Tensor:
    """[t, h] → [t, h]: each expert on ``rows`` rows, into which its share of the tokens is copied.

    Which tokens they are depends on values; here each expert has an equal share, at most its capacity. To
    choose by a mask, and as many rows as it has ones, the host reads a count each time.
    """
    results = tokens.clone()
    share = min(rows, -(-tokens.shape[0] // experts.num_experts))
    for number, expert in enumerate(experts.values()):
        mine = chosen[..., number].to(torch.bool)
        places = torch.arange(number * share, (number + 1) * share) % tokens.shape[0]
        padded = torch.zeros(rows, tokens.shape[1], dtype=tokens.dtype)
        torch.count_nonzero(mine)  # of the mask that chooses tokens
        taken = tokens[places]
        torch.count_nonzero(mine)  # of the rows that they fill
        padded[:share] = taken
        made = expert(padded)
        torch.count_nonzero(mine)  # of the rows that are put back
        torch.count_nonzero(mine)  # of the mask that says where
        results[places] = made[:share]
    return weights * results


# ---- attention of the study's transformers ------------------------------------------------------------


def _register_attention(model_type: str) -> str:
    """Name under which transformers finds the attention of a model's type; 'eager' for all others."""
    from perfcast.workload.models.transformers_context import import_lightly

    import_lightly()
    from transformers import AttentionInterface

    function = _ATTENTION.get(model_type)
    if function is None:
        return "eager"
    name = f"neusight_{model_type}"
    AttentionInterface.register(name, function)
    return name


def _attend_gpt2(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
) -> tuple[Tensor, Tensor]:
    scores = torch.matmul(query, key.transpose(-1, -2))
    scores = scores / torch.full([], value.shape[-1] ** 0.5, dtype=scores.dtype)
    allowed = torch.empty(1, 1, *scores.shape[-2:], dtype=torch.bool)
    scores = torch.where(allowed, scores, torch.full([], torch.finfo(scores.dtype).min, dtype=scores.dtype))
    return _weigh(module, scores, value, options)


def _attend_bert(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
) -> tuple[Tensor, Tensor]:
    scores = torch.matmul(query, key.transpose(-1, -2)) / query.shape[-1] ** 0.5
    scores = scores + torch.empty(scores.shape[0], 1, 1, scores.shape[-1])
    return _weigh(module, scores, value, options)


def _attend_opt(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **options: Any
) -> tuple[Tensor, Tensor]:
    query, key, value = (heads.contiguous() for heads in (query, key, value))
    scores = torch.matmul(query, key.transpose(-1, -2))
    scores = scores + torch.empty(scores.shape[0], 1, *scores.shape[-2:])
    scores = torch.max(scores, torch.full([], torch.finfo(scores.dtype).min, dtype=scores.dtype))
    return _weigh(module, scores, value, options)


def _weigh(module: Any, scores: Tensor, value: Tensor, options: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    """Probabilities, and values weighted with them, tokens before heads; the model copies them."""
    weights = functional.softmax(scores, dim=-1)
    weights = functional.dropout(weights, options.get("dropout", 0.0), module.training)
    return torch.matmul(weights, value).transpose(1, 2), weights


_ATTENTION: Mapping[str, Callable[..., tuple[Tensor, Tensor]]] = {
    "gpt2": _attend_gpt2,
    "bert": _attend_bert,
    "opt": _attend_opt,
}
