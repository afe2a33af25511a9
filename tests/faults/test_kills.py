"""A few kills of each subject; ``make faults`` has many, of recordings and profiles of a cluster too."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.apart import put_to_it_apart
from faults.jobs import kill_jobs
from faults.listing import subjects

KILLS = 3
#: Those whose work begins with processes that import PyTorch take minutes.
SLOW = ("mesh profile", "trace record")


@pytest.mark.parametrize("name", [name for name in subjects() if name not in SLOW])
def test_kills_inside_work_lose_and_double_nothing(tmp_path: Path, name: str):
    count = put_to_it_apart(name, tmp_path, KILLS, seed=1)
    assert count.hits == KILLS
    assert count.compared >= 1


def test_a_job_whose_process_is_killed_is_answered_by_another():
    count = kill_jobs(2, seed=1)
    assert count.hits == count.compared == 2
