"""Deployments for requests as they come: the best within limits, and the laws of what is weighed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perfcast.core.serving.deployment import Disaggregated
from perfcast.core.serving.lengths import Lengths
from perfcast.core.serving.load import ClosedLoad, OpenLoad
from perfcast.errors import InputError, PlanError
from perfcast.prediction.request.serving import EngineOptions, Limits
from perfcast.prediction.serving.engines import StepTables
from perfcast.prediction.serving.predict import predict_serving
from perfcast.searches.prices_file import PriceList
from perfcast.searches.resolve import ignore_progress
from perfcast.searches.serving.play import Player, serving_request
from perfcast.searches.serving.rank import excess
from perfcast.searches.serving.replicas import build_replicas, list_plans
from perfcast.searches.serving.request import DeploymentSearchRequest
from perfcast.searches.serving.result import DeploymentSearchResult
from perfcast.searches.serving.sampled import sample_steps
from perfcast.searches.serving.search import search_deployments
from perfcast.searches.serving.space import list_deployments
from perfcast.searches.serving.targets import resolve_targets
from perfcast.searches.serving.weigh import weigh
from perfcast.simulate.closed_form.serving.work import work_of

TINY = {
    "model_type": "llama", "num_hidden_layers": 4, "hidden_size": 512, "intermediate_size": 1024,
    "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 4096, "max_position_embeddings": 4096,
}  # fmt: skip
CLUSTER = "dgx-h100:4"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("model") / "config.json"
    path.write_text(json.dumps(TINY), encoding="utf-8")
    return str(path)


def asked(model: str, **changes) -> DeploymentSearchRequest:
    return DeploymentSearchRequest(
        **{
            "model": model,
            "clusters": (CLUSTER,),
            "prompts": Lengths(512, "uniform", 0.1),
            "answers": Lengths(64, "uniform", 0.1),
            "load": ClosedLoad(32),
            "engine": EngineOptions(host_seconds=2e-3),
            "dtypes": ("bf16",),
            "max_sequences": (16, 64),
            "max_step_tokens": (1024, 4096),
            "cost_models": {"h100-sxm": "roofline"},
            "num_played": 3,
            **changes,
        }
    )


@pytest.fixture(scope="module")
def free(model: str) -> DeploymentSearchResult:
    """Without limits."""
    return search_deployments(asked(model))


def test_what_is_ranked_keeps_the_limits_by_events_the_best_first(model: str, free: DeploymentSearchResult):
    limit = 2 * free.winner.first_seconds
    found = search_deployments(asked(model, limits=Limits(time_to_first_token_seconds=limit)))
    rates = [each.tokens_per_second_per_device for each in found.ranked]
    assert rates == sorted(rates, reverse=True)
    assert all(each.worst <= 1 and each.first_seconds <= limit for each in found.ranked)
    assert found.ranked[0].gives_up == ()
    assert all(each.gives_up for each in found.ranked[1:])


def test_the_request_of_a_deployment_gives_its_figures_again(free: DeploymentSearchResult):
    best = free.winner
    again = predict_serving(best.request)
    assert again.time_to_first_token.p90.value == best.first_seconds
    assert again.rates.output_tokens_per_second.value / again.num_devices == best.tokens_per_second_per_device
    assert "--measure steady" in best.command
    assert best.command.startswith("perfcast serving ")


def test_each_objective_has_the_best_of_its_own(model: str):
    prices = PriceList("prices", {CLUSTER: 2.0})
    results = {
        objective: search_deployments(asked(model, objective=objective, prices=prices, num_played=0, top=1))
        for objective in ("tokens-per-second", "dollars-per-token", "devices", "latency")
    }
    winners = {objective: found.winner for objective, found in results.items()}
    assert winners["devices"].num_devices == min(each.num_devices for each in winners.values())
    assert winners["latency"].whole_seconds == min(each.whole_seconds for each in winners.values())
    dollars = [each.dollars_per_token for each in winners.values()]
    assert winners["dollars-per-token"].dollars_per_token <= min(dollars) * 1.01  # told apart by a thousandth


def test_no_one_on_the_front_is_beaten_in_both(free: DeploymentSearchResult):
    points = [(each.tokens_per_second_per_user, each.tokens_per_second_per_device) for each in free.front]
    users, devices = zip(*points, strict=True)
    assert list(users) == sorted(users, reverse=True)
    assert list(devices) == sorted(devices)


def test_what_excludes_all_is_said_with_the_nearest(model: str):
    with pytest.raises(PlanError, match=r"--max-tpot .* excludes all of [\d,]+ deployments.*Nearest: dgx"):
        search_deployments(asked(model, limits=Limits(time_per_output_token_seconds=1e-6)))
    with pytest.raises(PlanError, match="keeps up with the load"):
        search_deployments(asked(model, load=OpenLoad(1e7)))


def test_a_model_too_large_says_what_the_roomiest_plan_holds():
    with pytest.raises(PlanError, match="the roomiest holds 0"):
        search_deployments(asked("llama3-70b", clusters=("dgx-h100:1",)))


def test_demands_that_contradict_are_refused(model: str):
    with pytest.raises(InputError, match="needs a load"):
        asked(model, objective="devices", load=None)
    with pytest.raises(InputError, match="needs --prices"):
        asked(model, objective="dollars-per-token")
    with pytest.raises(PlanError, match="a replica that serves has tp, pp, dp and ep"):
        asked(model, fixed={"cp": 2})


def test_degrees_that_are_fixed_are_those_of_every_plan(model: str):
    (target,), _ = resolve_targets(asked(model))
    plans = list(list_plans(target, {"tp": 2}))
    assert {plan.tensor_parallel for plan in plans} == {2}
    assert {plan.data_parallel for plan in plans} == {1}  # no experts to share
    found = search_deployments(asked(model, fixed={"tp": 2}, kinds=("aggregated",), num_played=0))
    assert all(each.deployment.pool.plan.tensor_parallel == 2 for each in found.ranked)


def weighed(request: DeploymentSearchRequest):
    (target,), _ = resolve_targets(request)
    replicas, _ = build_replicas(request, target, ignore_progress)
    work = work_of(request.prompts, request.answers, prefix_hit_share=0.0, tokens_per_step=1.0)
    samples = sample_steps(work, [replica.times for replica in replicas])
    rows = list_deployments(request, replicas, samples)
    return replicas, rows, weigh(request, replicas, samples, rows)


@pytest.mark.parametrize("load", [ClosedLoad(48), OpenLoad(20.0), None])
def test_all_at_once_are_what_each_is_alone(model: str, load):
    request = asked(model, load=load)
    replicas, rows, found = weighed(request)
    tables = StepTables()
    for row in range(0, len(rows), max(1, len(rows) // 9)):
        if not found.is_stable[row]:
            continue
        one = replace(serving_request(request, replicas, rows, row), method="closed_form", num_requests=400)
        alone = predict_serving(one, tables)
        tokens = alone.rates.output_tokens_per_second.value
        assert found.tokens_per_second[row] == pytest.approx(tokens, rel=0.03)
        token = alone.time_per_output_token.mean.value
        assert 1 / found.user_tokens_per_second[row] == pytest.approx(token, rel=0.03)


def test_more_clients_never_get_less_out_of_a_deployment(model: str):
    request = asked(model, load=None, max_sequences=(64,), max_step_tokens=(2048,))
    _, rows, found = weighed(request)
    kinds = np.stack([rows.reader, rows.writer, rows.readers, rows.writers], axis=1)
    for kind in np.unique(kinds, axis=0):
        mine = np.flatnonzero((kinds == kind).all(axis=1))
        mine = mine[np.argsort(rows.amount[mine])]
        rates = found.tokens_per_second[mine]
        assert (np.diff(rates) >= -0.03 * rates[1:]).all()


def test_more_memory_never_holds_fewer_plans_or_tokens(model: str):
    request = asked(model)
    (target,), _ = resolve_targets(request)
    small, _ = build_replicas(request, target, ignore_progress)
    device = replace(target.device, memory_bytes=2 * target.device.memory_bytes)
    large, _ = build_replicas(request, replace(target, device=device), ignore_progress)
    held = {replica.plan: replica.kv_tokens.max() for replica in large}
    assert all(held[replica.plan] >= replica.kv_tokens.max() for replica in small)


def test_looser_limits_never_exclude_more(model: str):
    request = asked(model)
    _, _, found = weighed(request)
    counts = [
        int((excess(replace(request, limits=Limits(time_to_first_token_seconds=limit)), found) <= 1).sum())
        for limit in (0.001, 0.01, 0.1, 1.0, 10.0)
    ]
    assert counts == sorted(counts)


def test_events_that_break_a_limit_send_the_search_to_fewer_clients(model: str):
    request = asked(model, load=None, max_sequences=(64,), max_step_tokens=(2048,), kinds=("aggregated",))
    usual = search_deployments(replace(request, num_played=1))
    limit = usual.winner.first_seconds * 0.95
    found = search_deployments(replace(request, limits=Limits(time_to_first_token_seconds=limit)))
    assert all(each.first_seconds <= limit for each in found.ranked)


def test_two_pools_are_weighed_and_played(model: str):
    found = search_deployments(asked(model, kinds=("disaggregated",), num_played=1))
    assert isinstance(found.winner.deployment, Disaggregated)
    assert "--prefill-plan" in found.winner.command
    assert found.winner.forecast is not None


def test_a_player_plays_what_it_is_asked(model: str):
    request = asked(model)
    replicas, rows, found = weighed(request)
    player = Player(request, replicas, rows, found)
    played = player.play(0)
    assert played is not None
    assert player.num_played == 1
    assert played.forecast.num_devices == found.num_devices[0]
