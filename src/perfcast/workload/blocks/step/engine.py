"""What a step of a serving engine runs, by parts that add up: calls on grids of their sizes.

Prompts and answers of a step go through the same products together; attention of prompts and of answers are
kernels of their own (FlashInfer and TensorRT-LLM: one for each phase; FlashAttention's variable-length
kernel takes both, whose work adds up). So the calls of a layer at so many tokens, without those whose work
depends on what sequences hold (``CONTEXT_MODULES``), and these alone, say what any step runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from perfcast.core.arrays import Integers
from perfcast.core.model.transformer import Transformer
from perfcast.core.model.weights import check_degrees
from perfcast.core.operation import Operation
from perfcast.core.plan import Plan
from perfcast.core.precision import Precision
from perfcast.core.work import Calls
from perfcast.errors import ModelError, PlanError
from perfcast.frameworks.profile import InferenceProfile
from perfcast.workload.blocks.attention.serving import CONTEXT_MODULES
from perfcast.workload.blocks.ends.training import EMBEDDING, HEAD
from perfcast.workload.blocks.layer.serving import attention
from perfcast.workload.blocks.serving.kernels import fused_norm
from perfcast.workload.blocks.serving.parts import linear_outside
from perfcast.workload.blocks.serving.setting import Serving
from perfcast.workload.blocks.step.serving import (
    boundary_of,
    check_serving_plan,
    serving_assumptions,
    serving_layer,
    split_serving_model,
)
from perfcast.workload.blocks.step.stages import LayerKey, LayerSort
from perfcast.workload.blocks.tape import Tape

#: Of the head, what runs over all tokens of a step; the rest runs over those whose logits are wanted.
_OVER_ALL_TOKENS = frozenset({"head.norm"})


@dataclass(frozen=True, eq=False)
class EngineGrid:
    """Sizes at which the parts of steps are built, each rising.

    Attributes:
        tokens: Of a step, and rows of logits.
        sequences, held_tokens: That write, and what each attends to.
        read_tokens, seen_keys: Of prompts, new tokens and the mean of the keys that each of them sees.
    """

    tokens: Integers
    sequences: Integers
    held_tokens: Integers
    read_tokens: Integers
    seen_keys: Integers


@dataclass(frozen=True, eq=False)
class LayerParts:
    """Calls of one different layer, or end of the model, at each point of a grid.

    Attributes:
        answer_tokens, mixed_tokens: Of a step that only decodes, and of one that reads prompts; by tokens.
        answers: Attention by sequences and held tokens, in row-major order; empty of ends.
        prompts: The same by read tokens and seen keys.
        rows: By tokens of which logits are wanted; empty but of the head.
    """

    answer_tokens: tuple[Calls, ...]
    mixed_tokens: tuple[Calls, ...]
    answers: tuple[Calls, ...] = ()
    prompts: tuple[Calls, ...] = ()
    rows: tuple[Calls, ...] = ()


@dataclass(frozen=True, eq=False)
class EngineWork:
    """Steps of one engine.

    Attributes:
        layers: Each different one.
        stages: Each different pipeline stage: how often each layer stands in it, and how many are like it.
        boundaries: From one stage to the next, by tokens; empty where there is one.
        drafts: What drafts one token further, by sequences, and what it does of prompts; None where none
            is drafted.
    """

    grid: EngineGrid
    layers: Mapping[LayerKey, LayerParts]
    stages: tuple[tuple[Mapping[LayerKey, int], int], ...]
    boundaries: tuple[Operation, ...]
    drafts: LayerParts | None
    assumptions: tuple[str, ...]


def build_engine_work(
    model: Transformer,
    plan: Plan,
    precision: Precision,
    profile: InferenceProfile,
    grid: EngineGrid,
    *,
    drafted_tokens: int = 0,
) -> EngineWork:
    """The parts of an engine's steps.

    Args:
        plan: Of one replica; its data-parallel ranks are engines that step together, each with a batch like
            this one's.
        drafted_tokens: By the model's own prediction layers, in each step and sequence.

    Raises:
        PlanError: A plan that cannot cut the model, or that shards what inference does not.
        ModelError: A model that does not write token by token, or drafts without layers for it.
    """
    check_degrees(model, plan)
    check_serving_plan(plan)
    if not model.is_causal:
        raise ModelError("a model whose tokens see what follows them is not decoded token by token")
    if drafted_tokens and not model.num_prediction_layers:
        raise ModelError("the model has no layers that predict further tokens: nothing drafts")
    if plan.context_parallel > 1:
        raise PlanError(f"cp={plan.context_parallel}: an engine's steps have cp=1 only")
    plan = replace(plan, micro_batch_size=1, num_micro_batches=1)
    setting = Serving(model, plan, precision, 1, 1, True, False, profile, drafted_tokens=drafted_tokens)
    parts = split_serving_model(model, plan)
    stages = Counter(tuple(Counter(dict(part.contents())).items()) for part in parts)
    keys = list(dict.fromkeys(key for stage in stages for key, _ in stage))
    contexts = {key: _contexts_of(setting, key, grid) for key in {_attends_as(key) for key in keys}}
    layers = {key: _parts_of(setting, key, grid, contexts[_attends_as(key)]) for key in keys}
    sends = [boundary_of(replace(setting, batch_size=int(n), drafted_tokens=0)) for n in grid.tokens]
    return EngineWork(
        grid=grid,
        layers=layers,
        stages=tuple((dict(stage), copies) for stage, copies in stages.items()),
        boundaries=tuple(send for send in sends if send is not None),
        drafts=_drafts(setting, layers, grid) if drafted_tokens else None,
        assumptions=serving_assumptions(setting),
    )


def _drafts(setting: Serving, layers: Mapping[LayerKey, LayerParts], grid: EngineGrid) -> LayerParts:
    """A prediction layer: one more of the last sort behind norms of the last layer's output and of the next
    token's embedding, joined by a product (DeepSeek-V3, section 2.2); it shares embedding and head."""
    own = layers[[key for key in layers if isinstance(key, LayerSort)][-1]]
    ends = (layers[EMBEDDING], layers[HEAD]) if EMBEDDING in layers and HEAD in layers else ()
    answering, reading = [], []
    for place, tokens in enumerate(grid.tokens):
        joined = _joined_input(replace(setting, batch_size=int(tokens), drafted_tokens=0))
        around = [
            calls for end in ends for rows in (end.answer_tokens, end.rows) if rows for calls in rows[place]
        ]
        answering.append((*joined, *own.answer_tokens[place], *around))
        reading.append((*joined, *own.mixed_tokens[place]))
    return LayerParts(tuple(answering), tuple(reading), own.answers, own.prompts)


def _joined_input(setting: Serving) -> Calls:
    tape, model = Tape(), setting.model
    for _ in range(2):
        for operation in fused_norm(
            model.norm, setting.tokens, model.hidden_size, setting.precision.element, adds=False
        ):
            tape.run(operation, "prediction.norm")
    linear_outside(tape, setting, setting.tokens, model.hidden_size, 2 * model.hidden_size, "prediction.join")
    return tape.calls()


@dataclass(frozen=True, eq=False)
class _Contexts:
    """Calls whose work depends on what sequences hold, as of ``LayerParts``."""

    answers: tuple[Calls, ...] = ()
    prompts: tuple[Calls, ...] = ()


def _attends_as(key: LayerKey) -> LayerSort | None:
    """What of a sort of layer its attention depends on; None of an end of the model."""
    if isinstance(key, str):
        return None
    return LayerSort(has_experts=False, has_window=key.has_window, has_linear=key.has_linear)


def _contexts_of(setting: Serving, key: LayerSort | None, grid: EngineGrid) -> _Contexts:
    if key is None:
        return _Contexts()
    one = replace(setting, drafted_tokens=0)
    answers = tuple(
        _context_calls(replace(setting, batch_size=int(s), context_length=int(c)), key)
        for s in grid.sequences
        for c in grid.held_tokens
    )
    prompts = tuple(_prompt_calls(one, key, int(t), int(m)) for t in grid.read_tokens for m in grid.seen_keys)
    return _Contexts(answers, prompts)


def _parts_of(setting: Serving, key: LayerKey, grid: EngineGrid, contexts: _Contexts) -> LayerParts:
    one = replace(setting, drafted_tokens=0)
    answering = [serving_layer(replace(one, batch_size=int(n)), key).forward for n in grid.tokens]
    reading = [
        serving_layer(replace(one, is_decode=False, context_length=int(n)), key).forward for n in grid.tokens
    ]
    if key == EMBEDDING:
        return LayerParts(tuple(answering), tuple(reading))
    if key == HEAD:
        return LayerParts(
            tuple(_apart(calls, _OVER_ALL_TOKENS, keeps=True) for calls in answering),
            tuple(_apart(calls, _OVER_ALL_TOKENS, keeps=True) for calls in reading),
            rows=tuple(_apart(calls, _OVER_ALL_TOKENS, keeps=False) for calls in answering),
        )
    return LayerParts(
        tuple(_apart(calls, CONTEXT_MODULES, keeps=False) for calls in answering),
        tuple(_apart(calls, CONTEXT_MODULES, keeps=False) for calls in reading),
        contexts.answers,
        contexts.prompts,
    )


def _context_calls(setting: Serving, key: LayerSort) -> Calls:
    window = setting.model.sliding_window if key.has_window else 0
    return _apart(attention(setting, has_linear=key.has_linear, window=window), CONTEXT_MODULES, keeps=True)


def _prompt_calls(setting: Serving, key: LayerSort, tokens: int, seen: int) -> Calls:
    """Attention of so many new tokens, each of which sees so many keys on average.

    One prompt's chunk behind what stands before it; where they see fewer keys than a single prompt of so
    many tokens would, as many whole prompts as that takes, each of 2 · seen - 1 tokens.
    """
    alone = (tokens + 1) / 2
    if seen >= alone:
        count, length, behind = 1, tokens, round(seen - alone)
    else:
        length, behind = max(2 * seen - 1, 1), 0
        count = max(round(tokens / length), 1)
    chunk = replace(
        setting, is_decode=False, batch_size=count, context_length=behind + length, read_tokens=length
    )
    share = tokens / (count * length)
    calls = _context_calls(chunk, key)
    return calls if share == 1 else tuple(replace(call, share=call.share * share) for call in calls)


def _apart(calls: Calls, modules: frozenset[str], *, keeps: bool) -> Calls:
    """Calls of these modules, or all others; they run one after the other."""
    return tuple(call for call in calls if (call.module in modules) == keeps)
