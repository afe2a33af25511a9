"""Which cluster a plan runs on: by its own name, or the server of a device."""

from __future__ import annotations

from perfcast.catalogs.clusters import ClusterEntry, load_cluster, load_cluster_entries, load_cluster_entry
from perfcast.catalogs.devices import find_device_name
from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.hardware import Device
from perfcast.errors import PlanError, UnknownNameError


def cluster_by_name(name: str, num_devices: int | None, device: str | None = None) -> Cluster:
    """A cluster by its name.

    Args:
        name: Of the catalog, or a ``.toml`` file; with ``:N`` for its devices.
        num_devices: Where the name does not count them; None takes what its data file states.
        device: Asked for beside it.

    Raises:
        PlanError: Two different numbers of devices, or another device than the cluster's.
    """
    counted = name.rpartition(":")[1] == ":"
    if counted or num_devices is None:
        found = load_cluster(name)
    else:
        found = load_cluster_entry(name).of_size(num_devices)
    if counted and num_devices not in (None, found.num_devices):
        raise PlanError(f"--cluster {name}, but --devices {num_devices}")
    if device is not None and find_device_name(device) != found.device:
        raise PlanError(f"--cluster {name} has {found.device}, not --device {device}; leave one of them out")
    return found


def has_cluster(device: Device) -> bool:
    """Whether the catalog has a cluster of a device."""
    return any(entry.device == device.name for entry in load_cluster_entries().values())


def cluster_of_device(device: str, num_devices: int) -> Cluster:
    """The catalog's cluster of a device: the simplest with the fastest links, of equals the last.

    The catalog's files end with those of the vendors' own systems.

    Raises:
        UnknownNameError: No such device.
        PlanError: No cluster of it.
    """
    entries = load_cluster_entries()
    name = find_device_name(device)
    if name is None and not device.endswith(".toml") and device != "cpu":
        known = sorted({entry.device for entry in entries.values()})
        raise UnknownNameError("device", device, known, "See 'perfcast catalog devices'.")
    of_device = [entry for entry in entries.values() if entry.device == name]
    if not of_device:
        raise PlanError(
            f"no cluster of {device} is known, and a plan needs links between devices; "
            f"choose one with --cluster: {', '.join(entries)}, or a .toml file of your own"
        )
    return max(reversed(of_device), key=_rank).of_size(num_devices)


def _rank(entry: ClusterEntry) -> tuple[float, ...]:
    """Fewer levels, then links that reduce nothing between servers, then faster ones from inside."""
    between = entry.levels[1:]
    return (
        -len(entry.levels),
        -sum(level.link.reduces_in_network for level in between),
        *(level.link.bytes_per_second for level in entry.levels),
    )
