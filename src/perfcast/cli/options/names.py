"""Names of the catalog, completed by the shell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import get_args

import click
from click.shell_completion import CompletionItem

#: Names of one kind, read when a shell asks.
Names = Callable[[], Iterable[str]]


def _devices() -> Iterable[str]:
    from perfcast.catalogs.devices import load_device_entries, load_processor_entries

    return (*load_device_entries(), *load_processor_entries(), "cpu")


def _clusters() -> Iterable[str]:
    from perfcast.catalogs.clusters import load_cluster_entries

    return load_cluster_entries()


def _models() -> Iterable[str]:
    from perfcast.catalogs.models import load_models

    return load_models()


def _frameworks() -> Iterable[str]:
    from perfcast.core.training import FRAMEWORKS
    from perfcast.searches.handover.serving.job import ServingFramework

    return (*FRAMEWORKS, *get_args(ServingFramework))


def _systems() -> Iterable[str]:
    from perfcast.published.systems import SYSTEMS

    return SYSTEMS


#: Parameter → names that complete it.
_OF_PARAMETER: Mapping[str, Names] = {
    "device": _devices,
    "cluster": _clusters,
    "cluster_name": _clusters,
    "clusters": _clusters,
    "model": _models,
    "framework": _frameworks,
}
#: Command → names that complete its NAME.
_OF_COMMAND: Mapping[str, Names] = {
    "devices": _devices,
    "clusters": _clusters,
    "models": _models,
    "published": _systems,
}


class CatalogName(click.types.StringParamType):
    """A text that is mostly a name of the catalog; files and other texts are taken too.

    Args:
        names: What a shell completes; of several names with commas between them the last.
    """

    def __init__(self, names: Names) -> None:
        self._names = names

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Names that begin so; files too where none does."""
        before, comma, last = incomplete.rpartition(",")
        found = [name for name in self._names() if name.startswith(last)]
        if not found:
            return [CompletionItem(incomplete, type="file")]
        return [CompletionItem(f"{before}{comma}{name}") for name in found]


def complete_names(command: click.Command) -> None:
    """Let a shell complete the command's options and arguments that name something of the catalog."""
    if isinstance(command, click.Group):
        for one in command.commands.values():
            complete_names(one)
    for parameter in command.params:
        names = _OF_PARAMETER.get(str(parameter.name))
        if names is None and parameter.name == "name":
            names = _OF_COMMAND.get(str(command.name))
        if names is not None and type(parameter.type) is click.types.StringParamType:
            parameter.type = CatalogName(names)
