"""A request about serving, all its names resolved: model, devices, precision, deployment, engines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from perfcast.core.forecast.fit import Fit, fit_of
from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.hardware import Device
from perfcast.core.plan import Plan
from perfcast.core.precision import Precision, check_device, on_device
from perfcast.core.program import StepProgram
from perfcast.core.serving.deployment import Aggregated, Deployment, Pool
from perfcast.core.serving.load import ClosedLoad
from perfcast.core.serving.requests import Requests
from perfcast.core.serving.scheduling import Scheduling
from perfcast.cost.model import CostModel
from perfcast.errors import PlanError
from perfcast.frameworks.precision import serving_precision
from perfcast.frameworks.serving_memory import load_serving_memory
from perfcast.memory_use.footprint.engine import EngineMemory, engine_memory
from perfcast.prediction.defaults import choose_defaults
from perfcast.prediction.model import NamedModel, read_model
from perfcast.prediction.names import resolve_cost_model, resolve_device
from perfcast.prediction.program import choose_serving_program
from perfcast.prediction.request.serving import ServingRequest
from perfcast.prediction.serving.deployment import check_deployment, choose_deployment, pools_of
from perfcast.prediction.serving.requests import requests_of
from perfcast.prediction.serving.scheduler import scheduler_of
from perfcast.units import format_bytes


@dataclass(frozen=True, slots=True)
class EngineSetting:
    """The engines of one pool.

    Attributes:
        memory_bytes: Of the device that holds most: weights, cache, the largest step, libraries.
        token_bytes: Of keys and values of one token, over all devices of a replica that hold a part of it.
    """

    pool: Pool
    scheduling: Scheduling
    memory_fraction: float
    memory_bytes: int
    token_bytes: float


@dataclass(frozen=True)
class ResolvedServing:
    """A question about serving as it is played.

    Attributes:
        engines: Of the one pool, or of prefill and decode.
        requests: That are played.
        defaults: What was chosen of precision and deployment, in words.
    """

    request: ServingRequest
    model: NamedModel
    device: Device
    precision: Precision
    program: StepProgram
    cost_model: CostModel
    deployment: Deployment
    engines: tuple[EngineSetting, ...]
    requests: Requests
    defaults: tuple[str, ...]

    @property
    def cluster(self) -> Cluster:
        """Whose devices hold all replicas."""
        return self.request.cluster

    @cached_property
    def fits(self) -> tuple[Fit, ...]:
        """Of every pool."""
        return tuple(fit_of(each.memory_bytes, self.device.memory_bytes) for each in self.engines)


def resolve_serving(request: ServingRequest) -> ResolvedServing:
    """Names to data; the deployment chosen where none is named.

    Raises:
        InputError: An unknown name; a deployment that model or cluster cannot follow; a request longer than
            the memory of an engine holds.
    """
    device, model = resolve_device(request.cluster.device), read_model(request.model)
    _check_model(model, device)
    if request.engine.speculation is not None:
        model = model.drafting()
    chosen = choose_defaults(model, "decode", device, dtype=request.dtype, sequence_length=1)
    program = choose_serving_program(model, request.engine.framework)
    framework = program.framework
    precision = on_device(serving_precision(chosen.dtype, framework, request.kv_cache_dtype), device)
    check_device(device, precision.name)
    requests = requests_of(request)
    cases = _Engines(request, model, device, precision, framework, requests)
    deployment, notes = request.deployment, chosen.notes
    if deployment is None:
        deployment, rule = cases.choose()
        notes = (*notes, rule)
    check_deployment(deployment, model.sizes, request.cluster)
    _check_options(request, model, deployment)
    engines = cases.settings(deployment)
    notes = (*notes, *cases.raised(engines))
    return ResolvedServing(
        request=request,
        model=model,
        device=device,
        precision=precision,
        program=program,
        cost_model=resolve_cost_model(request.cost_model, device, framework),
        deployment=deployment,
        engines=engines,
        requests=requests,
        defaults=notes,
    )


def _check_options(request: ServingRequest, model: NamedModel, deployment: Deployment) -> None:
    """Whether everything that is set has an effect.

    Raises:
        PlanError: Something has none.
    """
    engine = request.engine
    if engine.expert_load != 1 and model.sizes.experts is None:
        raise PlanError(f"expert load {engine.expert_load:g}: {model.name} has no experts")
    if engine.speculation is not None and not model.sizes.num_prediction_layers:
        raise PlanError(f"{model.name} has no layers that predict further tokens: nothing drafts")
    ranks = max(pool.plan.data_parallel for pool in pools_of(deployment))
    if engine.rank_wait_steps and ranks == 1:
        raise PlanError("rank wait steps: of attention data-parallel ranks (dp above 1), and there are none")


def _check_model(model: NamedModel, device: Device) -> None:
    if not model.has_sizes or not model.sizes.is_causal:
        raise PlanError(f"{model.name}: serving is of models that generate, known by their sizes")
    if device.is_cpu:
        raise PlanError(f"{device.name}: serving is forecast on accelerators")


@dataclass(frozen=True)
class _Engines:
    """What the engines of a plan are, whichever it is."""

    request: ServingRequest
    model: NamedModel
    device: Device
    precision: Precision
    framework: str
    requests: Requests

    def choose(self) -> tuple[Aggregated, str]:
        """The deployment where none is named, and how it was chosen."""
        totals = self.requests.prompt_tokens + self.requests.answer_tokens
        load = self.request.load
        waiting = load.concurrency if isinstance(load, ClosedLoad) else len(self.requests)
        return choose_deployment(
            self.model.sizes,
            self.request.cluster,
            lambda plan: self._sized(plan)[2],
            longest=int(totals.max()),
            mean=float(totals.mean()),
            num_requests=waiting,
        )

    def settings(self, deployment: Deployment) -> tuple[EngineSetting, ...]:
        """Of each pool.

        Raises:
            PlanError: Weights that do not fit, or a request that the cache does not hold.
        """
        pools = pools_of(deployment)
        return tuple(
            self._setting(pool, reads_alone=len(pools) > 1 and place == 0) for place, pool in enumerate(pools)
        )

    def raised(self, engines: tuple[EngineSetting, ...]) -> tuple[str, ...]:
        """Which limits were chosen beyond what the framework takes by itself, in words."""
        found = []
        for engine in engines:
            usual = scheduler_of(self.framework, self.device, engine.pool.plan, self.request.engine)
            taken = engine.scheduling.max_step_tokens
            if taken != usual.max_step_tokens:
                found.append(
                    f"steps of {taken:,} tokens rather than {usual.max_step_tokens:,}: prompts are read whole"
                )
        return tuple(dict.fromkeys(found))

    def _setting(self, pool: Pool, *, reads_alone: bool) -> EngineSetting:
        plan = pool.plan
        memory, fraction, tokens = self._sized(plan)
        limits = self._scheduler(plan)
        answers = 1 if reads_alone else self.requests.answer_tokens
        longest = int((self.requests.prompt_tokens + answers).max())
        if tokens < longest:
            raise PlanError(self._too_little(plan, memory, tokens, longest))
        profile = load_serving_memory(self.framework)
        sizes = (np.array([limits.max_step_tokens]), np.array([limits.max_sequences]))
        cache = memory.cache_bytes(profile, np.array([fraction]), *sizes)
        held = memory.taken_bytes(profile, cache, memory.step_bytes(*sizes))
        copies = 1 if self.model.sizes.latent_attention else plan.tensor_parallel
        return EngineSetting(
            pool=pool,
            scheduling=replace(limits, kv_tokens=tokens),
            memory_fraction=fraction,
            memory_bytes=int(held[0]),
            token_bytes=float(memory.token_bytes.sum()) * copies,
        )

    def _too_little(self, plan: Plan, memory: EngineMemory, tokens: int, longest: int) -> str:
        weights = format_bytes(float(memory.weight_bytes.max()))
        room = f"keys and values of {tokens:,} tokens" if tokens else "no keys and values at all"
        return (
            f"a request of {longest:,} tokens does not fit an engine: beside {weights} of weights, "
            f"{format_bytes(self.device.memory_bytes)} of {self.device.name} hold {room}; cut the model "
            "further (tp, pp, ep), or take a narrower --dtype or --kv-cache-dtype"
        )

    def _scheduler(self, plan: Plan) -> Scheduling:
        """The framework's; where prompts are read whole, with steps that hold the longest beside answers."""
        found = scheduler_of(self.framework, self.device, plan, self.request.engine)
        needed = int(self.requests.prompt_tokens.max()) + self._writing(found)
        if found.chunks_prompts or self.request.engine.max_step_tokens or found.max_step_tokens >= needed:
            return found
        return replace(found, max_step_tokens=needed)

    def _writing(self, scheduling: Scheduling) -> int:
        """Most answers that an engine writes at once."""
        load = self.request.load
        most = load.concurrency if isinstance(load, ClosedLoad) else len(self.requests)
        drafted = self.request.engine.speculation.drafted_tokens if self.request.engine.speculation else 0
        return min(scheduling.max_sequences, most) * (1 + drafted)

    def _sized(self, plan: Plan) -> tuple[EngineMemory, float, int]:
        """What a rank of a plan holds, the fraction that the program takes, and the tokens that makes."""
        engine, requests = self.request.engine, self.requests
        length = max(1, round(float((requests.prompt_tokens + requests.answer_tokens).mean())))
        cut = replace(plan, expert_imbalance=1.0)
        memory = engine_memory(self.model.sizes, cut, self.precision, length, self.device)
        profile, limits = load_serving_memory(self.framework), self._scheduler(plan)
        fraction = engine.memory_fraction
        if fraction is None:
            whole = self._scheduler(
                replace(plan, data_parallel=1, expert_parallel=1, expert_tensor_parallel=None)
            )
            fraction = profile.fraction_on(
                self.device.memory_bytes,
                plan,
                whole.max_step_tokens,
                has_draft=engine.speculation is not None,
            )
        tokens = memory.kv_tokens(
            profile,
            np.array([fraction]),
            np.array([limits.max_step_tokens]),
            np.array([limits.max_sequences]),
        )
        return memory, fraction, int(tokens[0])
