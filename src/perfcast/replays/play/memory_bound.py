"""A bound on the memory of a process that plays a trace of unknown origin.

What a trace says of sizes is checked before anything is allocated, but an operator's result follows from
its arguments, whatever the trace says of it: two short vectors make a long table. The system refuses
what goes beyond the bound, the call counts as one that cannot run here, and the machine stays whole.
"""

from __future__ import annotations

from pathlib import Path

from perfcast.replays.play.prepare import given_bytes, made_peak_bytes
from perfcast.replays.program.program import ReplayProgram
from perfcast.units import GIB, KIB

#: What a process of PyTorch needs beside tensors, and libraries' workspaces.
_OWN_BYTES = 8 * GIB
#: Results may live beside what they are made from, and in another layout once more.
_COPIES = 3


def bound_memory(program: ReplayProgram) -> int:
    """Let this process have what a program should need, and no more; returns the bound in bytes.

    Only for a processor, and where the system can bound it (``RLIMIT_DATA``); 0 where nothing is bound.
    Call it in a process that does nothing else: the bound stays.
    """
    if any(not buffer.device.startswith("cpu") for buffer in program.buffers):
        return 0
    try:
        import resource
    except ImportError:
        return 0
    wanted = _used_bytes() + _OWN_BYTES + _COPIES * (given_bytes(program) + made_peak_bytes(program))
    _, hardest = resource.getrlimit(resource.RLIMIT_DATA)
    bound = wanted if hardest == resource.RLIM_INFINITY else min(wanted, hardest)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, hardest))
    return bound


def _used_bytes() -> int:
    """Private memory of this process by now; 0 where the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return 0
    found = [line.split()[1] for line in lines if line.startswith("VmData:")]
    return int(found[0]) * KIB if found else 0
