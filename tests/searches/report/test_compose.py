"""What the command asks: clusters, named plans, another searcher, the fewest devices."""

import json

import pytest

from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.errors import InputError, ModelError, PlanError
from perfcast.searches.prices_file import PriceList
from perfcast.searches.report.baseline import Baseline
from perfcast.searches.report.compose import compose_report
from perfcast.searches.request import SearchRequest
from perfcast.searches.space.definition import Space

TINY = {
    "model_type": "gpt2",
    "n_layer": 4,
    "n_embd": 512,
    "n_head": 8,
    "vocab_size": 8000,
    "n_positions": 256,
}
FEW = Space(
    zero_stages=(0,), recomputes=("none",), schedules=("1f1b",), offloads=("none",),
    fixed={"cp": 1, "sp": 0, "mbs": 1},
)  # fmt: skip
DEVICES = ("h100-sxm", "a100-sxm-80gb")


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(TINY), encoding="utf-8")
    return str(path)


def request(model, *clusters, **changes):
    return SearchRequest(
        model=model, clusters=clusters or ("dgx-h100:8",), global_batch_size=16, space=FEW, top=3,
        **{"num_simulated": 3, "cost_models": dict.fromkeys(DEVICES, "roofline"), **changes},
    )  # fmt: skip


def tokens_of(steps):
    return steps * 16 * 256


def test_a_named_plan_is_explained_beside_the_winner(tiny):
    named = {"mine": lambda count: Plan(data_parallel=count, num_micro_batches=2)}
    found = compose_report(request(tiny, named=named))
    assert [e.label for e in found.explanations] == ["the winner", "mine"]
    assert found.differences[0].second.plan.data_parallel == 8
    assert found.explanations[0].forecast.step_seconds == pytest.approx(found.best.winner.step_seconds)


def test_a_named_plan_that_no_cluster_can_follow_is_refused_before_the_search(tiny):
    def make(count):
        raise PlanError("tp=3 does not divide")

    with pytest.raises(PlanError, match="--compare tp=3: tp=3 does not divide"):
        compose_report(request(tiny, named={"tp=3": make}))


def test_a_cluster_without_a_price_is_refused_before_the_search(tiny):
    prices = PriceList("prices.toml", {"dgx-a100": 1.0})
    with pytest.raises(InputError, match=r"prices\.toml has no price of cluster 'dgx-h100'"):
        compose_report(request(tiny, "dgx-a100:8", "dgx-h100:8", prices=prices))


def test_the_fewest_devices_of_each_cluster_are_found_and_the_smallest_number_wins(tiny):
    # 100 steps; the deadline is what sixteen H100 take twice over, so that fewer of them do.
    whole = compose_report(request(tiny, "dgx-h100:16")).best.winner
    asked = request(
        tiny, "dgx-h100:16", "dgx-a100:16", objective="devices", tokens=tokens_of(100),
        deadline_seconds=200 * whole.step_seconds,
    )  # fmt: skip
    found = compose_report(asked)
    best = found.best
    assert best.winner.value == best.num_devices == best.winner.plan.world_size < 16
    assert 100 * best.winner.step_seconds <= 200 * whole.step_seconds
    counts = [result.num_devices for result in found.comparison.results]
    assert counts == sorted(counts)
    assert found.explanations[0].forecast.num_devices == best.num_devices


def test_the_size_below_the_fewest_devices_misses_the_deadline(tiny):
    whole = compose_report(request(tiny, "dgx-h100:16")).best.winner
    deadline = {"tokens": tokens_of(100), "deadline_seconds": 200 * whole.step_seconds}
    count = compose_report(request(tiny, "dgx-h100:16", objective="devices", **deadline)).best.num_devices
    for fewer in [size for size in (1, 2, 4, 8) if size < count]:
        with pytest.raises(PlanError, match="no plan is left"):
            compose_report(request(tiny, f"dgx-h100:{fewer}", **deadline))


def test_devices_for_a_deadline_need_both(tiny):
    with pytest.raises(InputError, match="needs --deadline and --tokens"):
        compose_report(request(tiny, objective="devices"))


def test_devices_of_a_model_without_a_length_need_one(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**TINY, "model_type": "bloom", "n_positions": None}), encoding="utf-8")
    with pytest.raises(ModelError, match="--sequence-length"):
        compose_report(request(str(path), objective="devices", tokens=1e6, deadline_seconds=1.0))


def order(*scored):
    return Baseline("other", lambda model, cluster, training, batch, length: scored)


def test_another_searchers_choice_is_the_best_plan_with_its_degrees(tiny):
    baseline = order(((4, 2, 1), 0.5), ((8, 1, 1), 0.7), ((1, 1, 8), 0.9))
    found = compose_report(request(tiny, baseline=baseline))
    ranking = found.baseline
    assert ranking is not None
    assert (ranking.name, ranking.num_plans, ranking.reason) == ("other", 3, "")
    assert [one.degrees for one in ranking.plans] == ["dp=4,tp=2,pp=1", "dp=8,tp=1,pp=1", "dp=1,tp=1,pp=8"]
    assert [e.label for e in found.explanations] == ["the winner", "other's choice"]
    plans, step = found.best.evaluation.plans, found.best.evaluation.step_seconds
    same = (plans.data_parallel == 4) & (plans.tensor_parallel == 2)
    assert ranking.plans[0].step_seconds == pytest.approx(step[same].min())
    # Four layers are not eight stages.
    assert (ranking.plans[2].plan, ranking.plans[2].step_seconds) == (None, None)


def test_a_choice_that_is_not_possible_says_why(tiny):
    found = compose_report(request(tiny, baseline=order(((1, 1, 8), 0.5))))
    assert found.baseline is not None
    assert "no plan for 8 devices" in found.baseline.reason
    assert [e.label for e in found.explanations] == ["the winner"]


def test_progress_names_the_cluster_where_there_are_several(tiny):
    told = []
    asked = request(tiny, "dgx-h100:8", "dgx-a100:8", training=Training(framework="megatron"))
    compose_report(asked, lambda part, done, total: told.append(part))
    assert {part.partition(":")[0] for part in told if "explaining" not in part} == {"dgx-h100", "dgx-a100"}
