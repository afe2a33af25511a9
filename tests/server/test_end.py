"""A server that ends leaves no process behind, however it ends and whatever its processes are doing."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time

import httpx
import psutil
import pytest
from test_jobs import LONG


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_it(how):
    command = [sys.executable, "-m", "perfcast", "web", "--port", "0", "--no-page"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found is not None
        job = {"verb": "predict", "question": LONG}
        address = httpx.post(f"{found[0]}api/v1/jobs", json=job, timeout=60).headers["location"]
        while httpx.get(f"{found[0].rstrip('/')}{address}", timeout=60).json()["state"] == "waiting":
            time.sleep(0.05)
        family = psutil.Process(process.pid).children(recursive=True)
        assert len(family) >= 2
        process.send_signal(how)
        process.wait(timeout=20)
    _, alive = psutil.wait_procs(family, timeout=20)
    assert not alive


def test_processes_are_forked_from_one_that_runs_one_thread(live_server):
    httpx.get(f"{live_server}/api/v1/health", timeout=60)
    (server,) = (
        one
        for one in psutil.Process().children(recursive=True)
        if one.is_running() and _listens(one, live_server)
    )
    forks = [one for one in server.children() if "forkserver" in " ".join(one.cmdline())]
    assert [one.num_threads() for one in forks] == [1]


def _listens(process: psutil.Process, address: str) -> bool:
    port = int(address.rpartition(":")[2])
    return any(one.laddr and one.laddr.port == port for one in process.net_connections(kind="tcp"))
