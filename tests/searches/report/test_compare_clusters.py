"""Clusters in the order of their winners."""

from dataclasses import replace

import pytest

from perfcast.errors import InputError, PlanError
from perfcast.searches.report.clusters import compare_clusters
from search_reports import ranked_plan, search_result


def result_of(value: float, objective: str = "tokens-per-second"):
    return search_result(objective=objective, ranked=(replace(ranked_plan(0), value=value),))


def test_more_tokens_a_second_win_and_equals_stay_as_asked():
    values = {"a:8": 5.0, "b:8": 9.0, "c:8": 5.0}
    found = compare_clusters(list(values), lambda name: result_of(values[name]))
    assert [found.outcomes[at].asked for at in found.ranking] == ["b:8", "a:8", "c:8"]
    assert [result.winner.value for result in found.results] == [9, 5, 5]


def test_fewer_dollars_win():
    values = {"a:8": 5.0, "b:8": 9.0}
    found = compare_clusters(list(values), lambda name: result_of(values[name], "dollars-per-token"))
    assert found.ranking == (0, 1)


def test_a_cluster_without_a_plan_is_kept_with_its_reason():
    def search(name: str):
        if name == "small:8":
            raise PlanError("no plan is left")
        return result_of(1.0)

    found = compare_clusters(["small:8", "a:8"], search)
    assert found.ranking == (1,)
    assert (found.outcomes[0].result, found.outcomes[0].reason) == (None, "no plan is left")


def test_no_cluster_with_a_plan_is_an_error_that_says_why_of_each():
    def search(name: str):
        raise PlanError(f"{name} is too small")

    with pytest.raises(PlanError, match="no cluster has a plan; a: a is too small; b: b is too small"):
        compare_clusters(["a", "b"], search)
    with pytest.raises(PlanError, match=r"^a is too small$"):
        compare_clusters(["a"], search)


def test_other_errors_are_not_taken_for_a_cluster_without_a_plan():
    def search(name: str):
        raise InputError("unknown model")

    with pytest.raises(InputError, match="unknown model"):
        compare_clusters(["a", "b"], search)


def test_a_cluster_named_twice_is_searched_once():
    asked: list[str] = []

    def search(name: str):
        asked.append(name)
        return result_of(1.0)

    compare_clusters(["a", "a"], search)
    assert asked == ["a"]
