"""What the host spends on issuing a step, and how long the device waits for it.

``processors`` says which processor issues and how fast it is, ``costs`` what an operator costs by class and
mode, ``issue`` gives every node of a graph its time on the host, ``queue`` what of it the device waits for.
"""

from perfcast.cost.host.issue import NO_WAIT, Host, HostMode, HostWait, host_of
from perfcast.cost.host.processors import HostProcessor, processor_names, resolve_processor
from perfcast.cost.host.queue import exposed_host_seconds

__all__ = [
    "NO_WAIT",
    "Host",
    "HostMode",
    "HostProcessor",
    "HostWait",
    "exposed_host_seconds",
    "host_of",
    "processor_names",
    "resolve_processor",
]
