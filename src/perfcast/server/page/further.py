"""Questions that follow from one that was answered, as links to other views."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import urlencode

from perfcast.catalogs.clusters import load_cluster_entries
from perfcast.errors import InputError
from perfcast.prediction.plan.cluster import cluster_of_device
from perfcast.server.page.fields import fields_of
from perfcast.server.page.view import Plain
from perfcast.verbs.question import Question, plain_of

#: Fields that say where and how much, which each view writes in its own way.
_OF_PLACE = ("device", "devices", "cluster", "plan", "batch_size")
#: Of more and more devices, in multiples of those asked about.
_MULTIPLES = (1, 2, 4, 8)


def further_links(question: Question) -> list[tuple[str, str]]:
    """What is said of each, and its address; () where nothing follows."""
    plain = plain_of(question)
    if question.verb == "memory":
        return [("Time of this step", _address("forecast", "predict", plain))]
    if question.verb != "predict":
        return []
    try:
        return list(_of_forecast(plain))
    except InputError:  # a place that the catalog does not know
        return []


def _of_forecast(plain: Plain) -> Iterator[tuple[str, str]]:
    device, cluster, count = _place(plain)
    of_memory = {**plain, "device": device, "devices": count if count > 1 else None, "cluster": None}
    yield "Memory of this step", _address("memory", "memory", of_memory)
    if count == 1:
        return
    kept = {name: value for name, value in plain.items() if name not in _OF_PLACE}
    batch = plain.get("batch_size")
    searched = {**kept, "cluster": f"{cluster}:{count}", "global_batch_size": batch}
    yield "The best plan for it", _address("search", "search", searched)
    scaled = {**kept, "cluster": cluster, "devices": [count * each for each in _MULTIPLES]}
    if not plain.get("mode"):
        yield "More devices", _address("scale", "scale", {**scaled, "batch_size": batch})


def _place(plain: Plain) -> tuple[str, str, int]:
    """Device, cluster and number of devices of a forecast.

    Raises:
        InputError: Of a device without a cluster.
    """
    named = str(plain.get("cluster") or "")
    if named:
        cluster, _, number = named.partition(":")
        entry = load_cluster_entries().get(cluster)
        if entry is None or not number.isdecimal():
            raise InputError(f"cluster '{named}' is not of the catalog, with a number")
        return entry.device, cluster, int(number)
    device, count = str(plain.get("device")), plain.get("devices") or 1
    assert isinstance(count, int)
    return device, cluster_of_device(device, 1).name if count > 1 else "", count


def _address(view: str, verb: str, plain: Mapping[str, object]) -> str:
    """Of a view; what the verb does not know, and what says nothing, is left out."""
    known = {name: plain[name] for name in fields_of(verb) if plain.get(name) is not None}
    pairs = [
        (name, "1" if each is True else each)
        for name, value in known.items()
        for each in (value if isinstance(value, list) else [value])
    ]
    return f"/{view}?{urlencode(pairs)}"
