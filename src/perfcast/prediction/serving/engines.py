"""Step times of the engines of a deployment, each different one built once, and what joins two pools."""

from __future__ import annotations

from dataclasses import replace

from perfcast.core.machine.cluster import Cluster
from perfcast.core.plan import Plan
from perfcast.core.serving.scaled import ScaledSteps
from perfcast.core.serving.tabulated import TabulatedSteps
from perfcast.prediction.serving.constants import load_serving_constants
from perfcast.prediction.serving.resolve import EngineSetting, ResolvedServing
from perfcast.prediction.serving.steps import build_step_times
from perfcast.simulate.serving.play import Engines, KVTransfer


class StepTables:
    """Step times by what they depend on, so that the points of a sweep share them."""

    def __init__(self) -> None:
        self._built: dict[object, TabulatedSteps] = {}

    def of(self, setting: ResolvedServing) -> tuple[TabulatedSteps, ...]:
        """Of each pool.

        Raises:
            InputError: A plan that model, framework or cluster cannot follow.
        """
        return tuple(self._times(setting, engine) for engine in setting.engines)

    def _times(self, setting: ResolvedServing, engine: EngineSetting) -> TabulatedSteps:
        asked = setting.request.cost_model
        options = replace(
            setting.request.engine,
            max_sequences=engine.scheduling.max_sequences,
            max_step_tokens=engine.scheduling.max_step_tokens,
        )
        key = (
            setting.model.name,
            engine.pool.plan,
            setting.precision,
            setting.cluster,
            asked if asked is None or isinstance(asked, str) else id(asked),
            setting.program.framework,
            options,
        )
        if key not in self._built:
            self._built[key] = build_step_times(
                setting.model,
                engine.pool.plan,
                setting.precision,
                setting.cluster,
                setting.device,
                setting.cost_model,
                setting.program.framework,
                engine=options,
            )
        return self._built[key]


def engines_of(
    setting: ResolvedServing, times: tuple[TabulatedSteps, ...], factor: float = 1.0
) -> Engines | tuple[Engines, Engines]:
    """The engines of one pool, or of two, with steps ``factor`` times as long."""
    found = [
        Engines(
            pool=engine.pool,
            scheduling=engine.scheduling,
            times=table if factor == 1.0 else ScaledSteps(table, factor),
            speculation=setting.request.engine.speculation,
        )
        for engine, table in zip(setting.engines, times, strict=True)
    ]
    return (found[0], found[1]) if len(found) > 1 else found[0]


def transfer_of(setting: ResolvedServing) -> KVTransfer | None:
    """Keys and values from one pool to the other; None where there is one pool."""
    if len(setting.engines) == 1:
        return None
    prefill, decode = setting.engines
    return transfer_between(
        setting.cluster, setting.program.framework, (prefill.pool.plan, decode.pool.plan), prefill.token_bytes
    )


def transfer_between(
    cluster: Cluster, framework: str, plans: tuple[Plan, Plan], token_bytes: float
) -> KVTransfer:
    """Keys and values between replicas of two plans: each device of the smaller side has a share of them.

    They go over the outermost link of the cluster, beside the steps (DistServe: Zhong et al., OSDI 2024,
    section 4.2; NIXL, Mooncake's transfer engine).
    """
    lanes = min(plan.tensor_parallel * plan.pipeline_parallel for plan in plans)
    link = cluster.levels[-1].link
    handover = load_serving_constants().handover_seconds[framework]
    return KVTransfer(link.latency_seconds + handover, token_bytes / (lanes * link.bytes_per_second))


def request_seconds_of(setting: ResolvedServing) -> float:
    """From a client to an engine's queue and back."""
    asked = setting.request.request_seconds
    return load_serving_constants().request_seconds[setting.program.framework] if asked is None else asked
