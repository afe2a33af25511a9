"""From the options of ``perfcast search`` to the one request that they ask."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from perfcast.cli.search.baseline import find_baseline
from perfcast.cli.search.options import DEFAULT_FRAMEWORK, SearchOptions
from perfcast.core.dtype import AUTO
from perfcast.core.mode import Mode
from perfcast.core.plans.choice import complete_plan
from perfcast.core.plans.text import parse_plan
from perfcast.core.training import DTYPES, FRAMEWORKS, Training, TrainingFramework
from perfcast.core.tuning.text import format_tuning
from perfcast.core.words import known_word
from perfcast.errors import UnknownNameError

if TYPE_CHECKING:
    from perfcast.core.plan import Plan
    from perfcast.cost.model import CostModel
    from perfcast.searches.prices_file import PriceList
    from perfcast.searches.request import MakePlan, SearchRequest
    from perfcast.searches.serving.batches_request import ServingSearchRequest
    from perfcast.searches.sweep.plans import PlanSearch


def build_request(own: SearchOptions) -> SearchRequest:
    """A search for training.

    Raises:
        InputError: A value that an option cannot have; the message names it.
        UsageError: Options that contradict.
    """
    from perfcast.searches.request import NUM_SIMULATED, SearchRequest
    from perfcast.searches.space.definition import Space

    if not own.batch_sizes:
        raise click.UsageError("--global-batch-size N: how many sequences has a step?")
    (batch,) = own.batch_sizes
    dtype, defaults = _training_dtype(own)
    return SearchRequest(
        defaults=defaults,
        model=own.models[0],
        clusters=own.clusters,
        global_batch_size=batch,
        sequence_length=_only(own.sequence_lengths),
        training=Training(
            dtype=known_word("dtype", dtype, DTYPES),
            optimizer=own.optimizer,
            framework=choose_framework(own),
            compiles=own.compile,
            tuning=own.tuning(),
        ),
        cost_models=choose_cost_models(own.cost_model, own.clusters),
        space=Space(fixed=own.fixed),
        any_framework=own.any_framework,
        objective=choose_objective(own),
        tokens=own.tokens,
        deadline_seconds=own.deadline,
        prices=read_price_list(own),
        max_memory_fraction=own.max_memory_fraction,
        min_mfu=own.min_mfu,
        top=own.top,
        num_simulated=_count_simulated(own, NUM_SIMULATED),
        num_processes=_count_processes(own),
        named=_name_plans(own.compared, batch),
        with_sensitivity=own.sensitivity,
        baseline=find_baseline(own.cost_model),
    )


def _training_dtype(own: SearchOptions) -> tuple[str, tuple[str, ...]]:
    """As it is asked for, or what is usual on the first cluster, with that in words."""
    from perfcast.catalog.clusters import load_cluster_entry
    from perfcast.prediction.defaults import usual_dtype
    from perfcast.prediction.model import read_model
    from perfcast.prediction.names import resolve_device

    if own.dtype is not None:
        return own.dtype, ()
    entry = load_cluster_entry(own.clusters[0].partition(":")[0])
    dtype, why = usual_dtype(read_model(own.models[0]), "train", resolve_device(entry.device))
    return dtype, (f"{dtype}: {why}",)


def build_serving_request(own: SearchOptions) -> ServingSearchRequest:
    """A search for inference.

    Raises:
        InputError: A value that an option cannot have; the message names it.
        UsageError: An objective that inference does not have, or without what it needs.
    """
    from perfcast.searches.serving.batches_request import SERVING_OBJECTIVES, ServingSearchRequest

    mode: Mode = "prefill" if own.mode == "prefill" else "decode"
    own.tuning(mode)
    asked = own.objective or SERVING_OBJECTIVES[0]
    objective = next((name for name in SERVING_OBJECTIVES if name == asked), None)
    if objective is None:
        raise click.UsageError(f"inference has --objective {' or '.join(SERVING_OBJECTIVES)}")
    prices = read_price_list(own)
    if prices is None and objective == "dollars-per-token":
        raise click.UsageError("--objective dollars-per-token needs --prices")
    return ServingSearchRequest(
        model=own.models[0],
        mode=mode,
        clusters=own.clusters,
        context_length=_only(own.sequence_lengths),
        dtype=own.dtype or AUTO,
        kv_cache_dtype=own.kv_cache_dtype,
        framework=own.framework,
        cost_models=choose_cost_models(own.cost_model, own.clusters),
        max_first_seconds=own.max_ttft,
        max_token_seconds=own.max_tpot,
        fixed=own.fixed,
        max_memory_fraction=own.max_memory_fraction,
        batch_size=_only(own.batch_sizes),
        objective=objective,
        prices=prices,
        top=own.top,
    )


def build_sweep(own: SearchOptions) -> PlanSearch:
    """What all cells of a sweep share.

    Raises:
        InputError: A value that an option cannot have, or no price of a cluster.
        UsageError: Options that contradict.
    """
    from perfcast.catalog.clusters import load_cluster
    from perfcast.searches.sweep.plans import PlanSearch

    objective = choose_objective(own)
    if objective == "devices":
        raise click.UsageError("a sweep's cells have their devices: --cluster a:64,a:128 with time-to-train")
    prices = read_price_list(own)
    for name in own.clusters if prices else ():
        assert prices is not None
        prices.of_cluster(load_cluster(name), name)
    dtype, _ = _training_dtype(own)
    return PlanSearch(
        dtype=known_word("dtype", dtype, DTYPES),
        optimizer=own.optimizer,
        framework=choose_framework(own),
        compiles=own.compile,
        tuning=format_tuning(own.tuning()),
        cost_model=own.cost_model or "learned",
        fixed=own.fixed,
        any_framework=own.any_framework,
        num_best=own.top,
        num_simulated=_count_simulated(own, 0),
        objective=objective,
        tokens=own.tokens,
        deadline_seconds=own.deadline,
        prices=None if prices is None else dict(prices.dollars_per_device_hour),
        max_memory_fraction=own.max_memory_fraction,
        min_mfu=own.min_mfu,
    )


def choose_framework(own: SearchOptions) -> TrainingFramework:
    """Whose program trains: what is asked for, else that which the plan is handed over to.

    Raises:
        UsageError: The plan of one framework would be handed over to another.
    """
    if own.target is None:
        return known_word("framework", own.framework or DEFAULT_FRAMEWORK, FRAMEWORKS)
    from perfcast.searches.handover import TARGETS

    wanted = known_word("framework", TARGETS[own.target].framework, FRAMEWORKS)
    if own.framework not in (None, wanted):
        raise click.UsageError(
            f"--framework {own.framework} and --hand-over {own.target} contradict: that one runs plans of "
            f"--framework {wanted}; leave --framework out"
        )
    return wanted


def choose_objective(own: SearchOptions) -> str:
    """The objective of a training; the usual one where none is given.

    Raises:
        UnknownNameError: Lists close names.
        UsageError: Says which option is missing.
    """
    from perfcast.searches.ranking.objectives import OBJECTIVES

    objective = own.objective or next(iter(OBJECTIVES))
    if objective not in OBJECTIVES:
        raise UnknownNameError("objective", objective, OBJECTIVES, f"Known: {', '.join(OBJECTIVES)}.")
    given = {"--tokens": own.tokens, "--deadline": own.deadline, "--prices": own.prices}
    missing = [option for _, option in OBJECTIVES[objective].needs if given[option] is None]
    if missing:
        raise click.UsageError(f"--objective {objective} needs {' and '.join(missing)}")
    if own.deadline is not None and own.tokens is None:
        raise click.UsageError("--deadline needs --tokens: how long is the training?")
    return objective


def choose_cost_models(name: str | None, clusters: Sequence[str]) -> Mapping[str, str | CostModel | None]:
    """The cost model of each cluster's device, as ``--cost-model`` names it."""
    from perfcast.catalog.clusters import load_cluster
    from perfcast.verbs.shared.cost_model import find_cost_model

    if name is None or find_baseline(name) is not None:
        return {}
    devices = dict.fromkeys(load_cluster(cluster).device for cluster in clusters)
    return {device: find_cost_model(name, device) for device in devices}


def read_price_list(own: SearchOptions) -> PriceList | None:
    """The file of ``--prices``; None where none is given."""
    from perfcast.searches.prices_file import read_prices

    return read_prices(own.prices) if own.prices else None


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


def _count_simulated(own: SearchOptions, usual: int) -> int:
    """Most plans that are simulated."""
    if own.no_simulate and own.num_simulated:
        raise click.UsageError(f"--no-simulate and --num-simulated {own.num_simulated} contradict")
    return 0 if own.no_simulate else usual if own.num_simulated is None else own.num_simulated


def _count_processes(own: SearchOptions) -> int:
    """Those asked for; else two, where so many processors may be used."""
    if own.processes is not None:
        return own.processes
    return min(2, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
