"""Recordings in folders: files of PyTorch's profiler, named DEVICE_MODEL where a model has several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfcast.catalogs.devices import find_device_name
from perfcast.errors import InputError
from perfcast.evidence.train.recorded_kernels.observe import find_recordings
from perfcast.traces.events import Trace
from perfcast.traces.kineto.borrowed_inputs import read_ranks_with_inputs


@dataclass(frozen=True, eq=False)
class Recording:
    """One rank's timeline.

    Attributes:
        model: What follows the first '_' of the file's name.
        device: Name in the catalog; '' where that has none like it.
    """

    path: Path
    model: str
    device: str
    trace: Trace


def read_recordings(places: Sequence[Path], say: Callable[[str], None]) -> Iterator[Recording]:
    """Timelines in folders and below, by name; files that are none are left out."""
    for place in places:
        for path in find_recordings(place) if place.is_dir() else [place]:
            try:
                trace = read_ranks_with_inputs([path])[0]
            except InputError as error:
                say(f"{path.name} is left out: {error}")
                continue
            named = find_device_name(trace.devices[0].name) if trace.devices else None
            model = path.name.partition("_")[2].removesuffix(".json.gz")
            yield Recording(path, model, named or "", trace)
