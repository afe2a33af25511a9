"""Discovery of a real hierarchy: gloo processes in network namespaces behind a switch that delays packets.

Run by hand, as root on Linux: ``python benchmarks/discovery_namespaces.py [--shape 2,2,2] [--seed 0]``.
A shape of racks, hosts in a rack and processes on a host. Every host is a network namespace with one
interface, a TUN device; this program is the switch between them: it reads the packets of all hosts, queues
them at the rate of the link, and delivers them after its latency. Processes of one host meet over its
loopback. Each process runs ``perfcast mesh discover`` with the variables that torchrun sets; ranks are
dealt to the hosts at random. Prints what rank 0 reports and whether it is the truth; the exit code says it.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import heapq
import itertools
import json
import os
import random
import select
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

# Seconds one way and bytes per second between hosts of one rack, and of different racks.
RACK = (2e-3, 100e6)
ACROSS = (10e-3, 30e6)
NAME = "pcast"
PORT = 29477
MTU = 32000
TUN_SET_INTERFACE = 0x400454CA
TUN_WITHOUT_HEADER = 0x1001
CLONE_NEWNET = 0x40000000


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--shape", default="2,2,2")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    racks, hosts_per_rack, per_host = map(int, options.shape.split(","))
    num_hosts = racks * hosts_per_rack
    host_of = [host for host in range(num_hosts) for _ in range(per_host)]
    random.Random(options.seed).shuffle(host_of)
    try:
        devices = [open_host(host) for host in range(num_hosts)]
        stop = threading.Event()
        switch = threading.Thread(target=run_switch, args=(devices, hosts_per_rack, stop), daemon=True)
        switch.start()
        record = run_ranks(host_of)
        stop.set()
        switch.join()
    finally:
        for host in range(num_hosts):
            subprocess.run(["ip", "netns", "del", f"{NAME}{host}"], check=False, capture_output=True)
    found = [{frozenset(group) for group in groups} for groups in record["groups"]]
    truth = [
        {frozenset(range(len(host_of)))},
        groups_by([host // hosts_per_rack for host in host_of]),
        groups_by(host_of),
    ]
    truth = [groups for index, groups in enumerate(truth) if not index or groups != truth[index - 1]]
    print(f"true groups, outer first: {[sorted(map(sorted, groups)) for groups in truth]}")
    print(f"right: {found == truth}, confidence {record['confidence']:.2f}")
    return int(found != truth)


def groups_by(labels: list[int]) -> set[frozenset[int]]:
    return {frozenset(rank for rank, own in enumerate(labels) if own == label) for label in set(labels)}


def open_host(host: int) -> int:
    """A namespace with one TUN device, and the file through which its packets come."""
    subprocess.run(["ip", "netns", "add", f"{NAME}{host}"], check=True)
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{NAME}{host}", os.O_RDONLY)
    try:
        if libc.setns(there, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "cannot enter the namespace")
        device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(device, TUN_SET_INTERFACE, struct.pack("16sH", b"net0", TUN_WITHOUT_HEADER))
        for command in (
            "ip link set lo up",
            f"ip addr add {address(host)}/24 dev net0",
            f"ip link set net0 mtu {MTU} txqueuelen 4000 up",
        ):
            subprocess.run(command.split(), check=True)
    finally:
        libc.setns(home, CLONE_NEWNET)
        os.close(home)
        os.close(there)
    return device


def address(host: int) -> str:
    return f"10.77.0.{host + 1}"


def run_switch(devices: list[int], hosts_per_rack: int, stop: threading.Event) -> None:
    """Each pair of hosts has a link of its own in each direction: first the queue, then the way."""
    free_at: dict[tuple[int, int], float] = {}
    waiting: list[tuple[float, int, int, bytes]] = []
    order = itertools.count()
    while not stop.is_set():
        pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else 0.1
        ready = select.select(devices, [], [], min(pause, 0.1))[0]
        for device in ready:
            packet = os.read(device, MTU + 64)
            source, target = devices.index(device), packet[19] - 1
            if packet[0] >> 4 != 4 or packet[16:19] != bytes((10, 77, 0)) or not 0 <= target < len(devices):
                continue
            same_rack = source // hosts_per_rack == target // hosts_per_rack
            latency, rate = RACK if same_rack else ACROSS
            start = max(time.monotonic(), free_at.get((source, target), 0.0))
            free_at[source, target] = start + len(packet) / rate
            heapq.heappush(waiting, (free_at[source, target] + latency, next(order), target, packet))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, target, packet = heapq.heappop(waiting)
            os.write(devices[target], packet)


def run_ranks(host_of: list[int]) -> dict[str, Any]:
    """One ``perfcast mesh discover`` per rank; what rank 0 found."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "mesh.json"
        processes = []
        for rank, host in enumerate(host_of):
            environment = os.environ | {
                "RANK": str(rank),
                "WORLD_SIZE": str(len(host_of)),
                "LOCAL_RANK": str(host_of[:rank].count(host)),
                "MASTER_ADDR": address(host_of[0]),
                "MASTER_PORT": str(PORT),
                "GLOO_SOCKET_IFNAME": "net0",
                "OMP_NUM_THREADS": "1",
            }
            command = ["ip", "netns", "exec", f"{NAME}{host}", sys.executable, "-m", "perfcast", "mesh"]
            command += ["discover", "--stall-seconds", "240"]
            quiet = None if rank == 0 else subprocess.DEVNULL
            if rank == 0:
                command += ["--json", str(result)]
            processes.append(subprocess.Popen(command, env=environment, stdout=quiet))
        try:
            codes = [process.wait(timeout=540) for process in processes]
        finally:
            for process in processes:
                process.kill()
        if any(codes):
            raise SystemExit(f"ranks ended with {codes}")
        record: dict[str, Any] = json.loads(result.read_text())
        return record


if __name__ == "__main__":
    raise SystemExit(main())
