"""How much of a device a serving program takes, and for what: the part of a profile that sizes its cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Literal, get_args

from perfcast.core.plan import Plan
from perfcast.errors import CatalogError, UnknownNameError
from perfcast.figures import parse_figure, parse_table, parse_toml
from perfcast.frameworks.load import framework_names, profile_folder

#: What the fraction is a part of: of the whole 'device', of which weights and the peak of a step are taken;
#: of the device as a 'static' part for weights and cache alone, the rest being a step's; of what is 'free'
#: beside weights and the peak of a step.
FractionOf = Literal["device", "static", "free"]
_FIGURES = ("fraction", "reported", "several_ranks")
_KEYS = ("source", "fraction_of", "reserved", "graphs", *_FIGURES)
#: From so many tensor-parallel ranks on, larger graphs are captured.
_FOUR = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservedMemory:
    """What is left to steps, by a rule: bytes, and bytes for each of something.

    Attributes:
        fixed: In any case.
        step_token, least_step_tokens: Of each token of the largest step, of which there are at least so many.
        graph_sequence: Of each sequence of the largest CUDA graph.
        device: Of each device of a replica.
        attention_rank_sequence: Of each sequence of that graph and attention data-parallel rank;
            ``attention_rank_sequence_of_many`` where the graph has more than ``many_sequences``.
        least_of_large: At least, of devices with more than ``large``.
        speculation: With a draft model.
    """

    fixed: float
    step_token: float
    least_step_tokens: float
    graph_sequence: float
    device: float
    attention_rank_sequence: float
    attention_rank_sequence_of_many: float
    many_sequences: float
    least_of_large: float
    large: float
    speculation: float


@dataclass(frozen=True, slots=True)
class GraphSequences:
    """Sequences of the largest CUDA graph, on devices with at least so much memory.

    Attributes:
        of_four: With four tensor-parallel ranks or more.
    """

    least_memory_bytes: float
    sequences: int
    of_four: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingMemory:
    """How a program sizes its cache of keys and values.

    Attributes:
        fraction: Where it is one number; None: by ``reserved``.
        graphs: By rising memory of the device.
        reported: What the driver says that a device has, of what its datasheet says.
        several_ranks: Bytes of communication outside of PyTorch, beyond what one communicator takes, that the
            program counts where a replica has several ranks.
    """

    fraction_of: FractionOf
    fraction: float | None
    reserved: ReservedMemory | None
    graphs: tuple[GraphSequences, ...]
    reported: float
    several_ranks: float
    source: str

    def fraction_on(
        self, memory_bytes: float, plan: Plan, max_step_tokens: int, *, has_draft: bool = False
    ) -> float:
        """The fraction that the program takes where none is set.

        Args:
            memory_bytes: Of a device.
            max_step_tokens: Of the largest step.
            has_draft: Whether tokens are drafted by a model.
        """
        if self.reserved is None:
            assert self.fraction is not None  # parsed: one of both
            return self.fraction
        rule, sequences = self.reserved, self._graph_sequences(memory_bytes, plan)
        held = rule.fixed + rule.step_token * max(max_step_tokens, rule.least_step_tokens)
        held += rule.graph_sequence * sequences
        held += rule.device * plan.tensor_parallel * plan.pipeline_parallel
        if plan.data_parallel > 1:
            many = sequences > rule.many_sequences
            each = rule.attention_rank_sequence_of_many if many else rule.attention_rank_sequence
            held += each * sequences * plan.data_parallel
        if memory_bytes > rule.large:
            held = max(held, rule.least_of_large)
        if has_draft:
            held += rule.speculation
        return round((memory_bytes - held) / memory_bytes, 3)

    def _graph_sequences(self, memory_bytes: float, plan: Plan) -> int:
        found = [row for row in self.graphs if memory_bytes >= row.least_memory_bytes]
        if not found:
            return 0
        return found[-1].of_four if plan.tensor_parallel >= _FOUR else found[-1].sequences


@cache
def load_serving_memory(framework: str) -> ServingMemory:
    """How a framework sizes its cache.

    Raises:
        UnknownNameError: None of this name serves requests as they come.
        CatalogError: Its profile says something else than the fields have.
    """
    known = [name for name in framework_names() if _table(name)]
    if framework not in known:
        raise UnknownNameError("serving framework", framework, known, f"Known: {', '.join(known)}.")
    content = parse_toml(profile_folder() / f"{framework}.toml")
    where = f"{framework}.toml: [serving.memory]"
    return parse_serving_memory(_table(framework), content["sources"], where)


def _table(framework: str) -> Mapping[str, Any]:
    content = parse_toml(profile_folder() / f"{framework}.toml")
    return parse_table(parse_table(content, "serving", framework), "memory", framework)


def parse_serving_memory(table: Mapping[str, Any], sources: Mapping[str, str], where: str) -> ServingMemory:
    """The table ``[serving.memory]``.

    Raises:
        CatalogError: A key is missing or unknown, or a figure without unit or source.
    """
    unknown = sorted(table.keys() - set(_KEYS))
    if unknown or table.get("source") not in sources:
        raise CatalogError(f"{where}: {f'unknown key {unknown[0]}' if unknown else 'source missing'}")
    if table.get("fraction_of") not in get_args(FractionOf):
        raise CatalogError(f"{where}: fraction_of is one of {', '.join(get_args(FractionOf))}")
    if ("fraction" in table) == ("reserved" in table):
        raise CatalogError(f"{where}: either a fraction, or what is reserved")
    figures = {
        key: parse_figure(table[key], sources, f"{where} {key}").si_value for key in _FIGURES if key in table
    }
    return ServingMemory(
        fraction_of=table["fraction_of"],
        fraction=figures.get("fraction"),
        reserved=_reserved(table["reserved"], sources, where) if "reserved" in table else None,
        graphs=tuple(_graphs(row, sources, where) for row in table.get("graphs", [])),
        reported=figures.get("reported", 1.0),
        several_ranks=figures.get("several_ranks", 0.0),
        source=sources[table["source"]],
    )


def _reserved(table: Mapping[str, Any], sources: Mapping[str, str], where: str) -> ReservedMemory:
    names = {field.name for field in fields(ReservedMemory)}
    if table.keys() != names:
        raise CatalogError(f"{where}: [reserved] has {', '.join(sorted(names))}")
    return ReservedMemory(**{name: parse_figure(table[name], sources, where).si_value for name in names})


def _graphs(row: Mapping[str, Any], sources: Mapping[str, str], where: str) -> GraphSequences:
    def figure(key: str) -> float:
        return parse_figure(row.get(key), sources, f"{where} graphs: {key}").si_value

    sequences = int(figure("sequences"))
    of_four = int(figure("sequences_of_four")) if "sequences_of_four" in row else sequences
    return GraphSequences(figure("least_memory"), sequences, of_four)
