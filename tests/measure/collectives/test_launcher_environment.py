"""The ranks of torchrun and Slurm, from their variables."""

from __future__ import annotations

import pytest

from perfcast.errors import InputError
from perfcast.measure.collectives.environment import Place, find_place, first_host

TORCHRUN = {
    "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "node-a", "MASTER_PORT": "29500",
}  # fmt: skip
SLURM = {
    "SLURM_PROCID": "9", "SLURM_NTASKS": "16", "SLURM_LOCALID": "1", "SLURM_JOB_ID": "123456",
    "SLURM_STEP_NODELIST": "gpu[007-010]",
}  # fmt: skip


def test_torchrun_says_rank_and_meeting_place():
    assert find_place(TORCHRUN) == Place(3, 4, 1, "tcp://node-a:29500", "torchrun")


def test_slurm_ranks_meet_on_the_first_node():
    assert find_place(SLURM) == Place(9, 16, 1, "tcp://gpu007:23456", "Slurm")
    assert find_place({**SLURM, "MASTER_ADDR": "a", "MASTER_PORT": "1"}) == Place(
        9, 16, 1, "tcp://a:1", "Slurm"
    )


def test_without_a_launcher_there_is_no_place():
    assert find_place({}) is None
    batch_script = {k: v for k, v in SLURM.items() if k != "SLURM_STEP_NODELIST"}
    assert find_place(batch_script) is None


@pytest.mark.parametrize(
    ("nodes", "host"),
    [("gpu1", "gpu1"), ("gpu[007-010,12]", "gpu007"), ("a-1.x,b", "a-1.x"), ("n[3,5]-ib,q", "n3-ib")],
)
def test_the_first_host_of_a_node_list(nodes: str, host: str):
    assert first_host(nodes) == host


def test_variables_that_contradict_each_other_are_refused():
    with pytest.raises(InputError, match="RANK=4 is not below WORLD_SIZE=4"):
        find_place({**TORCHRUN, "RANK": "4"})
    with pytest.raises(InputError, match="WORLD_SIZE is 'four'"):
        find_place({**TORCHRUN, "WORLD_SIZE": "four"})
    with pytest.raises(InputError, match="is not a list of nodes"):
        find_place({**SLURM, "SLURM_STEP_NODELIST": "[]"})
