"""From the question of ``perfcast search`` to the one request of plans that it asks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from perfcast.core.dtype import AUTO
from perfcast.core.mode import Mode
from perfcast.core.plans.choice import complete_plan
from perfcast.core.plans.text import parse_plan
from perfcast.core.training import DTYPES, FRAMEWORKS, Training, TrainingFramework
from perfcast.core.tuning.text import format_tuning
from perfcast.core.words import known_word
from perfcast.errors import QuestionError, UnknownNameError
from perfcast.verbs.question import each
from perfcast.verbs.search.baseline import find_baseline
from perfcast.verbs.search.question import SearchQuestion
from perfcast.verbs.shared.step import format_of
from perfcast.verbs.shared.values import check_amount, check_fraction, parse_time

if TYPE_CHECKING:
    from perfcast.core.plan import Plan
    from perfcast.cost.model import CostModel
    from perfcast.searches.prices_file import PriceList
    from perfcast.searches.request import MakePlan, SearchRequest
    from perfcast.searches.serving.batches_request import ServingSearchRequest
    from perfcast.searches.sweep.plans import PlanSearch


DEFAULT_FRAMEWORK: TrainingFramework = "megatron"


def training_request_of(asked: SearchQuestion) -> SearchRequest:
    """A search for training.

    Raises:
        InputError: A value that an option cannot have; the message names it.
        QuestionError: Options that contradict.
    """
    from perfcast.searches.request import NUM_SIMULATED, SearchRequest
    from perfcast.searches.space.definition import Space

    if not asked.batch_sizes:
        raise QuestionError("--global-batch-size N: how many sequences has a step?")
    (batch,) = asked.batch_sizes
    dtype, defaults = _training_dtype(asked)
    return SearchRequest(
        defaults=defaults,
        model=asked.models[0],
        clusters=asked.clusters,
        global_batch_size=batch,
        sequence_length=_only(asked.sequence_lengths),
        training=Training(
            dtype=known_word("dtype", dtype, DTYPES),
            optimizer=asked.optimizer_word,
            framework=choose_framework(asked),
            compiles=asked.compile,
            tuning=asked.tuning(),
        ),
        cost_models=choose_cost_models(asked.cost_model, asked.clusters),
        space=Space(fixed=asked.fixed),
        any_framework=asked.any_framework,
        objective=choose_objective(asked),
        tokens=check_amount("--tokens", asked.tokens),
        deadline_seconds=parse_time("--deadline", asked.deadline),
        prices=read_price_list(asked),
        max_memory_fraction=memory_fraction_of(asked),
        min_mfu=check_fraction("--min-mfu", asked.min_mfu),
        top=asked.count("top"),
        num_simulated=_count_simulated(asked, NUM_SIMULATED),
        num_processes=_count_processes(asked),
        named=_name_plans(each(asked.compare), batch),
        with_sensitivity=asked.sensitivity,
        baseline=find_baseline(asked.cost_model),
    )


def _training_dtype(asked: SearchQuestion) -> tuple[str, tuple[str, ...]]:
    """As it is asked for, or what is usual on the first cluster, with that in words."""
    from perfcast.catalogs.clusters import load_cluster_entry
    from perfcast.prediction.defaults import usual_dtype
    from perfcast.prediction.model import read_model
    from perfcast.prediction.names import resolve_device

    stated = format_of(asked.dtype)
    if stated is not None:
        return stated, ()
    entry = load_cluster_entry(asked.clusters[0].partition(":")[0])
    dtype, why = usual_dtype(read_model(asked.models[0]), "train", resolve_device(entry.device))
    return dtype, (f"{dtype}: {why}",)


def inference_request_of(asked: SearchQuestion) -> ServingSearchRequest:
    """A search for inference.

    Raises:
        InputError: A value that an option cannot have; the message names it.
        QuestionError: An objective that inference does not have, or without what it needs.
    """
    from perfcast.searches.serving.batches_request import SERVING_OBJECTIVES, ServingSearchRequest

    mode: Mode = "prefill" if asked.search_mode == "prefill" else "decode"
    asked.tuning(mode)
    wanted = asked.objective or SERVING_OBJECTIVES[0]
    objective = next((name for name in SERVING_OBJECTIVES if name == wanted), None)
    if objective is None:
        raise QuestionError(f"inference has --objective {' or '.join(SERVING_OBJECTIVES)}")
    prices = read_price_list(asked)
    if prices is None and objective == "dollars-per-token":
        raise QuestionError("--objective dollars-per-token needs --prices")
    return ServingSearchRequest(
        model=asked.models[0],
        mode=mode,
        clusters=asked.clusters,
        context_length=_only(asked.sequence_lengths),
        dtype=format_of(asked.dtype) or AUTO,
        kv_cache_dtype=asked.kv_cache_dtype,
        framework=asked.framework,
        cost_models=choose_cost_models(asked.cost_model, asked.clusters),
        max_first_seconds=parse_time("--max-ttft", asked.max_ttft),
        max_token_seconds=parse_time("--max-tpot", asked.max_tpot),
        fixed=asked.fixed,
        max_memory_fraction=memory_fraction_of(asked),
        batch_size=_only(asked.batch_sizes),
        objective=objective,
        prices=prices,
        top=asked.count("top"),
    )


def sweep_job_of(asked: SearchQuestion) -> PlanSearch:
    """What all cells of a sweep share.

    Raises:
        InputError: A value that an option cannot have, or no price of a cluster.
        QuestionError: Options that contradict.
    """
    from perfcast.catalogs.clusters import load_cluster
    from perfcast.searches.sweep.plans import PlanSearch

    objective = choose_objective(asked)
    if objective == "devices":
        raise QuestionError("a sweep's cells have their devices: --cluster a:64,a:128 with time-to-train")
    prices = read_price_list(asked)
    for name in asked.clusters if prices else ():
        assert prices is not None
        prices.of_cluster(load_cluster(name), name)
    dtype, _ = _training_dtype(asked)
    return PlanSearch(
        dtype=known_word("dtype", dtype, DTYPES),
        optimizer=asked.optimizer_word,
        framework=choose_framework(asked),
        compiles=asked.compile,
        tuning=format_tuning(asked.tuning()),
        cost_model=asked.cost_model or "learned",
        fixed=asked.fixed,
        any_framework=asked.any_framework,
        num_best=asked.count("top"),
        num_simulated=_count_simulated(asked, 0),
        objective=objective,
        tokens=check_amount("--tokens", asked.tokens),
        deadline_seconds=parse_time("--deadline", asked.deadline),
        prices=None if prices is None else dict(prices.dollars_per_device_hour),
        max_memory_fraction=memory_fraction_of(asked),
        min_mfu=check_fraction("--min-mfu", asked.min_mfu),
    )


def choose_framework(asked: SearchQuestion) -> TrainingFramework:
    """Whose program trains: what is asked for, else that which the plan is handed over to.

    Raises:
        QuestionError: The plan of one framework would be handed over to another.
    """
    if asked.hand_over is None:
        return known_word("framework", asked.framework or DEFAULT_FRAMEWORK, FRAMEWORKS)
    from perfcast.searches.handover import TARGETS

    if asked.hand_over not in TARGETS:
        raise UnknownNameError("target", asked.hand_over, TARGETS, f"Known: {', '.join(TARGETS)}.")
    wanted = known_word("framework", TARGETS[asked.hand_over].framework, FRAMEWORKS)
    if asked.framework not in (None, wanted):
        raise QuestionError(
            f"--framework {asked.framework} and --hand-over {asked.hand_over} contradict: that one runs "
            f"plans of --framework {wanted}; leave --framework out"
        )
    return wanted


def choose_objective(asked: SearchQuestion) -> str:
    """The objective of a training; the usual one where none is given.

    Raises:
        UnknownNameError: Lists close names.
        QuestionError: Says which option is missing.
    """
    from perfcast.searches.ranking.objectives import OBJECTIVES

    objective = asked.objective or next(iter(OBJECTIVES))
    if objective not in OBJECTIVES:
        raise UnknownNameError("objective", objective, OBJECTIVES, f"Known: {', '.join(OBJECTIVES)}.")
    given = {"--tokens": asked.tokens, "--deadline": asked.deadline, "--prices": asked.prices}
    missing = [option for _, option in OBJECTIVES[objective].needs if given[option] is None]
    if missing:
        raise QuestionError(f"--objective {objective} needs {' and '.join(missing)}")
    if asked.deadline is not None and asked.tokens is None:
        raise QuestionError("--deadline needs --tokens: how long is the training?")
    return objective


def choose_cost_models(name: str | None, clusters: Sequence[str]) -> Mapping[str, str | CostModel | None]:
    """The cost model of each cluster's device, as ``--cost-model`` names it."""
    from perfcast.catalogs.clusters import load_cluster
    from perfcast.verbs.shared.cost_model import find_cost_model

    if name is None or find_baseline(name) is not None:
        return {}
    devices = dict.fromkeys(load_cluster(cluster).device for cluster in clusters)
    return {device: find_cost_model(name, device) for device in devices}


def memory_fraction_of(asked: SearchQuestion) -> float:
    """Of a device's memory that a plan may take."""
    return check_fraction("--max-memory-fraction", asked.number("max_memory_fraction")) or 1.0


def read_price_list(asked: SearchQuestion) -> PriceList | None:
    """The file of ``--prices``; None where none is given."""
    from perfcast.searches.prices_file import read_prices

    return read_prices(asked.prices) if asked.prices else None


def _name_plans(texts: Sequence[str], global_batch_size: int) -> dict[str, MakePlan]:
    """Plans of ``--compare`` by their texts; data parallelism follows from the devices."""
    return {text: _plan_maker(text, global_batch_size) for text in texts}


def _plan_maker(text: str, global_batch_size: int) -> MakePlan:
    values = {"micro_batch_size": 1, **parse_plan(text, "--compare")}

    def make(num_devices: int) -> Plan:
        return complete_plan(values, num_devices, global_batch_size, mode="train")

    return make


def _only(counts: tuple[int, ...]) -> int | None:
    return counts[0] if counts else None


def _count_simulated(asked: SearchQuestion, usual: int) -> int:
    """Most plans that are simulated."""
    if asked.no_simulate and asked.num_simulated:
        raise QuestionError(f"--no-simulate and --num-simulated {asked.num_simulated} contradict")
    return 0 if asked.no_simulate else usual if asked.num_simulated is None else asked.num_simulated


def _count_processes(asked: SearchQuestion) -> int:
    """Those asked for; else two, where so many processors may be used."""
    if asked.processes is not None:
        return asked.processes
    return min(2, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
