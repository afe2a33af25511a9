"""What one replica can be on a cluster: plans whose memory holds requests, and how long their steps take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.plan import Plan
from perfcast.core.plans.choice import complete_plan
from perfcast.core.serving.scheduling import Scheduling
from perfcast.core.serving.tabulated import TabulatedSteps
from perfcast.errors import PlanError
from perfcast.frameworks.serving_memory import load_serving_memory
from perfcast.memory_use.footprint.engine import EngineMemory, engine_memory
from perfcast.prediction.plan.smallest import powers_up_to
from perfcast.prediction.serving.scheduler import scheduler_of
from perfcast.prediction.serving.steps import build_step_times
from perfcast.searches.resolve import Progress
from perfcast.searches.serving.request import DeploymentSearchRequest
from perfcast.searches.serving.targets import Precise, Target

#: Beyond which no pipeline of a replica is tried: its batches share memory and places.
_LARGEST_PIPELINE = 8


@dataclass(frozen=True, eq=False)
class Replica:
    """One replica that holds requests.

    Attributes:
        limits: Of its scheduler's defaults, the cache not sized.
        max_sequences, max_step_tokens: Of an engine, all that are tried, shape (choices,).
        kv_tokens: Tokens whose keys and values an engine holds with each, shape (choices,).
        token_bytes: Of keys and values of one token, over all devices that hold a part of it.
    """

    target: Target
    precise: Precise
    plan: Plan
    limits: Scheduling
    max_sequences: Integers
    max_step_tokens: Integers
    kv_tokens: Integers
    token_bytes: float
    times: TabulatedSteps

    @property
    def num_devices(self) -> int:
        """Of one."""
        return self.plan.world_size


@dataclass(frozen=True, slots=True)
class Shortage:
    """A replica that does not hold the longest request: the tokens that it holds."""

    plan: Plan
    kv_tokens: int


def list_plans(target: Target, fixed: dict[str, int]) -> Iterator[Plan]:
    """Every tp · pp · dp · ep of a replica on at most the cluster's devices, the smallest first.

    Attention data-parallel ranks share experts, so that only models with experts have them, and all experts
    are spread over tp · dp then.
    """
    model, devices = target.model.sizes, target.cluster.num_devices
    server, heads = target.cluster.levels[0].size, model.num_attention_heads
    experts = 0 if model.experts is None else model.experts.num_experts
    degrees = [
        (tensor, pipeline, data, spread)
        for tensor in powers_up_to(min(server, heads, devices))
        if heads % tensor == 0
        for pipeline in powers_up_to(min(_LARGEST_PIPELINE, model.num_layers, devices // tensor))
        for data in (powers_up_to(devices // (tensor * pipeline)) if experts else (1,))
        for spread in sorted({1, tensor * data} if experts else {1})
        if (data == 1 or spread > 1) and (spread == 1 or experts % spread == 0)
    ]
    for tensor, pipeline, data, spread in sorted(degrees, key=lambda each: np.prod(each[:3])):
        stated = {"tp": tensor, "pp": pipeline, "dp": data, "ep": spread}
        if any(stated[key] != value for key, value in fixed.items()):
            continue
        values = {
            "tensor_parallel": tensor, "pipeline_parallel": pipeline, "data_parallel": data,
            "expert_parallel": spread, "sequence_parallel": False,
        }  # fmt: skip
        try:
            yield complete_plan(values, None, None, 1, "decode")
        except PlanError:
            continue


def build_replicas(
    request: DeploymentSearchRequest, target: Target, on_progress: Progress
) -> tuple[list[Replica], list[Shortage]]:
    """Each plan in each precision, with its step times; and those whose memory holds no request.

    Raises:
        PlanError: No plan can be followed; says why the last cannot.
    """
    fixed = {key: int(value) for key, value in request.fixed.items() if isinstance(value, int)}
    cases = [(plan, precise) for plan in list_plans(target, fixed) for precise in target.precisions]
    said = f"{target.asked}: steps of replicas"
    found: list[Replica] = []
    short: list[Shortage] = []
    refused = ""
    for done, (plan, precise) in enumerate(cases):
        on_progress(said, done, len(cases))
        try:
            built = _build(request, target, plan, precise)
        except PlanError as error:  # a plan that cannot cut the model, or that no kernels can follow
            refused = str(error)
            continue
        if isinstance(built, Replica):
            found.append(built)
        else:
            short.append(built)
    on_progress(said, len(cases), len(cases))
    if not found and not short and refused:
        raise PlanError(f"{target.asked}: none of {len(cases)} plans of a replica: {refused}")
    return found, short


def _build(
    request: DeploymentSearchRequest, target: Target, plan: Plan, precise: Precise
) -> Replica | Shortage:
    framework, engine = target.program.framework, request.engine
    limits = scheduler_of(framework, target.device, plan, engine)
    sequences, tokens = _choices(request, limits)
    length = max(1, round(request.prompts.mean_tokens + request.answers.mean_tokens))
    memory = engine_memory(target.model.sizes, plan, precise.precision, length, target.device)
    held = _kv_tokens(request, target, plan, memory, sequences, tokens)
    keeps = held >= length
    if not limits.chunks_prompts:
        keeps &= tokens >= request.prompts.mean_tokens
    if not keeps.any():
        return Shortage(plan, int(held.max()))
    sequences, tokens, held = sequences[keeps], tokens[keeps], held[keeps]
    times = build_step_times(
        target.model,
        plan,
        precise.precision,
        target.cluster,
        target.device,
        target.cost_model,
        framework,
        engine=replace(engine, max_sequences=int(sequences.max()), max_step_tokens=int(tokens.max())),
    )
    copies = 1 if target.model.sizes.latent_attention else plan.tensor_parallel
    each = float(memory.token_bytes.sum()) * copies
    return Replica(target, precise, plan, limits, sequences, tokens, held, each, times)


def _choices(request: DeploymentSearchRequest, limits: Scheduling) -> tuple[Integers, Integers]:
    """Every limit on sequences with every limit on tokens."""
    usual = [] if request.load is None else [16, 32, 64, 128, 256]
    sequences = request.max_sequences or (
        (limits.max_sequences,)
        if request.engine.max_sequences
        else sorted({limits.max_sequences, *(each for each in usual if each < limits.max_sequences)})
    )
    tokens = request.max_step_tokens or (
        (limits.max_step_tokens,)
        if request.engine.max_step_tokens
        else sorted({limits.max_step_tokens, *_usual_tokens(request, limits)})
    )
    first, second = np.meshgrid(np.array(sequences), np.array(tokens), indexing="ij")
    return first.ravel().astype(np.int64), second.ravel().astype(np.int64)


def _usual_tokens(request: DeploymentSearchRequest, limits: Scheduling) -> tuple[int, ...]:
    """Of a step; of whole prompts, with room for one beside all that write."""
    if limits.chunks_prompts:
        return (2048, 4096, 8192, 16384)
    whole = round(request.prompts.mean_tokens * (1 + request.prompts.spread)) + limits.max_sequences
    return (whole, 2 * whole)


def _kv_tokens(
    request: DeploymentSearchRequest,
    target: Target,
    plan: Plan,
    memory: EngineMemory,
    sequences: Integers,
    tokens: Integers,
) -> Integers:
    engine = request.engine
    profile = load_serving_memory(target.program.framework)
    has_draft = engine.speculation is not None

    def fraction(most: int) -> float:
        if engine.memory_fraction is not None:
            return engine.memory_fraction
        return profile.fraction_on(target.device.memory_bytes, plan, most, has_draft=has_draft)

    fractions: Floats = np.array([fraction(int(most)) for most in tokens])
    return memory.kv_tokens(profile, fractions, tokens, sequences)
