"""Plans shared among processes give the very same columns as one process."""

import multiprocessing
import os
import re
import signal
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.plans.table import to_table
from perfcast.core.training import Training
from perfcast.cost.roofline import Roofline
from perfcast.errors import InputError, PlanError
from perfcast.prediction.names import resolve_device
from perfcast.prediction.step.constants import load_step_constants
from perfcast.searches.evaluation.in_parts import evaluate_in_parts, split_plans
from perfcast.searches.evaluation.processes import describe_end, run_in_processes
from perfcast.searches.space.definition import Space
from perfcast.searches.space.enumeration import enumerate_plans
from perfcast.workload.plan_columns.layers import Setting

LENGTH, CLUSTER = 1024, load_cluster("dgx-h100:16")
MODEL = Transformer(
    num_layers=8, hidden_size=1024, num_attention_heads=16, num_kv_heads=16, head_size=64,
    ffn_hidden_size=4096, vocab_size=32000,
)  # fmt: skip


def evaluated(plans, num_processes):
    return evaluate_in_parts(
        Setting(MODEL, CLUSTER, Training(framework="megatron"), LENGTH), plans,
        resolve_device(CLUSTER.device), Roofline(), load_step_constants(), num_processes,
    )  # fmt: skip


def test_two_and_three_processes_give_the_arrays_of_one():
    space = Space(recomputes=("none", "full"), offloads=("none",), fixed={"mbs": 1, "zero": 1, "sp": 0})
    plans = enumerate_plans(MODEL, 16, 32, LENGTH, space)
    alone, num_operations = evaluated(plans, 1)
    for num_processes in (2, 3):
        shared, others = evaluated(plans, num_processes)
        assert np.array_equal(shared.step_seconds, alone.step_seconds)
        assert np.array_equal(shared.seconds_by_cause, alone.seconds_by_cause)
        assert others >= num_operations  # what two parts need is priced in both


def test_more_processes_than_ways_to_cut_layers_are_no_harm():
    plans = to_table([Plan(data_parallel=16), Plan(data_parallel=16, micro_batch_size=2)])
    alone, _ = evaluated(plans, 1)
    shared, _ = evaluated(plans, 5)
    assert np.array_equal(shared.step_seconds, alone.step_seconds)


def test_an_error_of_another_process_is_raised_as_it_is():
    """tp=3 cuts no 16 heads; whichever part that plan falls into."""
    plans = to_table([
        Plan(data_parallel=16), Plan(data_parallel=8, tensor_parallel=2),
        Plan(data_parallel=5, tensor_parallel=3),
    ])  # fmt: skip
    with pytest.raises(PlanError, match="tp=3 does not divide 16 attention heads"):
        evaluated(plans, 3)


@given(
    st.lists(st.tuples(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2])), min_size=1, max_size=30),
    st.integers(1, 6),
)
def test_every_plan_falls_into_one_part_and_plans_with_the_same_layers_into_the_same(degrees, num_parts):
    plans = to_table([Plan(tensor_parallel=tp, context_parallel=cp) for tp, cp in degrees])
    parts = split_plans(plans, num_parts)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(degrees)))
    held = [{degrees[at] for at in part} for part in parts]
    assert sum(map(len, held)) == len(set(degrees))


def test_results_come_in_the_order_of_the_tasks():
    assert run_in_processes([lambda at=at: at**2 for at in range(5)]) == [0, 1, 4, 9, 16]


def test_tasks_but_the_first_run_in_processes_of_their_own():
    own, *others = run_in_processes([os.getpid] * 3)
    assert own == os.getpid()
    assert len({own, *others}) == 3


def test_a_killed_process_is_an_error_and_no_missing_part():
    def be_killed():
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(InputError, match=r"was killed \(signal 9: .*want of memory.*--processes 1") as raised:
        run_in_processes([lambda: 1, be_killed])
    assert not isinstance(raised.value, PlanError)  # which would say that a cluster has no plan


def test_a_process_without_memory_says_so():
    def find_none():
        raise MemoryError

    with pytest.raises(InputError, match="found no more memory"):
        run_in_processes([lambda: 1, find_none])


def test_an_error_here_leaves_no_process_running():
    def fail():
        raise PlanError("this one")

    before = set(multiprocessing.active_children())
    with pytest.raises(PlanError, match="this one"):
        run_in_processes([fail, lambda: time.sleep(60)])
    assert not set(multiprocessing.active_children()) - before


@pytest.mark.parametrize(
    ("exit_code", "words"),
    [(1, "exit code 1"), (-15, r"killed \(signal 15: Terminated\)$"), (-9, "want of memory")],
)
def test_the_end_of_a_process_is_told_from_its_exit_code(exit_code, words):
    assert re.search(words, describe_end(exit_code))
