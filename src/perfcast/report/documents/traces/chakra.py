"""Chakra traces: what each rank's holds, and all ranks together."""

from __future__ import annotations

from collections.abc import Mapping

from perfcast.report.document import Block, Document, Fact, Items, Section
from perfcast.traces.chakra.summary import ChakraSummary, WorkloadSummary
from perfcast.units import format_bytes, format_seconds


def document_of(summary: WorkloadSummary) -> Document:
    """Each rank, then what a simulator would object to."""
    blocks: list[Block] = [_rank(rank) for rank in summary.ranks]
    if summary.num_objections:
        objections = Items(tuple(("·", objection) for objection in summary.objections))
        title = f"ASTRA-sim would not take it ({summary.num_objections} reasons)"
        blocks.append(Section(title=title, blocks=(objections,)))
    count = len(summary.ranks)
    facts: tuple[Fact, ...] = ()
    if count > 1:
        together = summary.problem or format_seconds(summary.together_seconds or 0.0)
        facts = (Fact("All ranks together", together),)
    return Document(
        title=f"Chakra traces of {count:,} rank{'s' if count > 1 else ''}", facts=facts, blocks=tuple(blocks)
    )


def _rank(rank: ChakraSummary) -> Section:
    facts = [Fact("Nodes", _counts(rank.num_nodes_by_type))]
    if rank.num_collectives_by_type:
        also = ", with messages" if rank.num_messages_by_type else ""
        facts.append(Fact("Collectives", f"{_counts(rank.num_collectives_by_type)}: {_size(rank)}{also}"))
    if rank.num_messages_by_type:
        said = "" if rank.num_collectives_by_type else f": {_size(rank)}"
        facts.append(Fact("Messages", _counts(rank.num_messages_by_type) + said))
    facts.append(Fact("Longest path", _path(rank)))
    if rank.num_missing:
        plural = "dependency" if rank.num_missing == 1 else "dependencies"
        missing = f"{rank.num_missing:,} {plural} on nodes that are not there"
        facts.append(Fact("Missing", missing, "alarm"))
    number = f"rank {rank.rank}" if rank.rank >= 0 else "rank unknown"
    return Section(
        title=f"{number}: {rank.num_nodes:,} nodes, {rank.num_dependencies:,} dependencies ({rank.source})",
        facts=tuple(facts),
    )


def _size(rank: ChakraSummary) -> str:
    unknown = rank.num_unknown_sizes
    if not unknown:
        return f"{format_bytes(rank.communication_bytes)} put in"
    beside = f"the size of {unknown} was not recorded"
    return (
        f"{format_bytes(rank.communication_bytes)} put in, and {beside}"
        if rank.communication_bytes
        else beside
    )


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name.replace('_', '-')}" for name, count in counts.items())


def _path(rank: ChakraSummary) -> str:
    path = format_seconds(rank.longest_path_seconds)
    if not rank.measured_seconds:
        return f"{path}, as far as this rank alone tells"
    error = round(rank.longest_path_seconds / rank.measured_seconds - 1, 4) + 0.0
    return f"{path}; recorded {format_seconds(rank.measured_seconds)} ({error:+.2%})"
