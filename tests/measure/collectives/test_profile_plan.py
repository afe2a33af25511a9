"""What is measured: meshes, sizes, groups; and the meshes that are refused."""

from __future__ import annotations

import json

import pytest

from perfcast.errors import InputError, UnknownNameError
from perfcast.measure.collectives.plan import PROFILED, Axis, ProfilePlan, make_plan, parse_mesh, sweep

MESH = (Axis("dp", 2), Axis("tp", 3))


def test_a_mesh_is_read_in_order():
    assert parse_mesh(" dp=2, tp=3 ") == MESH
    assert parse_mesh("") == ()


@pytest.mark.parametrize("text", ["dp", "dp=", "=2", "dp=x", "dp=0", "dp=-1", "d p=2", "dp=2.5"])
def test_what_is_not_a_mesh_is_refused(text: str):
    with pytest.raises(InputError, match="is not NAME=SIZE"):
        parse_mesh(text)


def test_an_axis_stands_once():
    with pytest.raises(InputError, match="'dp' stands twice"):
        parse_mesh("dp=2,dp=2")


def test_groups_run_along_an_axis_in_row_major_order():
    plan = make_plan(MESH, 6, "gloo")
    assert plan.groups(MESH[0]) == [[0, 3], [1, 4], [2, 5]]
    assert plan.groups(MESH[1]) == [[0, 1, 2], [3, 4, 5]]


def test_sizes_double_with_one_between():
    assert sweep(1024, 8192) == (1024, 1536, 2048, 3072, 4096, 6144, 8192)


def test_everything_is_measured_once_and_small_with_large():
    plan = make_plan(MESH, 6, "gloo", ["send", "all_reduce"], 1024, 2**20)
    measured = [(c.axis.name, c.collective, s) for c in plan.chunks() for s in c.sizes_bytes]
    assert len(measured) == len(set(measured)) == 2 * 2 * len(plan.sizes_bytes)
    assert set(measured) == plan.keys()
    assert all(max(c.sizes_bytes) >= 8 * min(c.sizes_bytes) for c in plan.chunks())


def test_without_a_mesh_all_ranks_are_one_axis():
    assert make_plan((), 4, "gloo").axes == (Axis("world", 4),)
    assert make_plan((), 4, "gloo").collectives == PROFILED


def test_an_axis_of_one_rank_is_not_measured():
    assert {c.axis.name for c in make_plan(parse_mesh("dp=1,tp=2"), 2, "gloo").chunks()} == {"tp"}


def test_a_mesh_must_hold_the_ranks():
    with pytest.raises(InputError, match="a mesh of 2 · 3 = 6 places does not hold 4 ranks"):
        make_plan(MESH, 4, "gloo")


def test_one_rank_has_nothing_to_measure():
    with pytest.raises(InputError, match="at least two ranks"):
        make_plan((), 1, "gloo")


def test_unknown_names_are_refused():
    with pytest.raises(UnknownNameError, match="backend 'mpi'"):
        make_plan((), 2, "mpi")
    with pytest.raises(UnknownNameError, match=r"'all_reduc'\. Did you mean all_reduce"):
        make_plan((), 2, "gloo", ["all_reduc"])


@pytest.mark.parametrize(("least", "most"), [(0, 8), (8, 8), (16, 8)])
def test_sizes_must_make_a_sweep(least: int, most: int):
    with pytest.raises(InputError, match="make no sweep"):
        make_plan((), 2, "gloo", (), least, most)


def test_a_plan_survives_json():
    plan = make_plan(MESH, 6, "gloo", ["send"])
    assert ProfilePlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
