"""How a result came to be, and what it comes to now, as a document."""

from __future__ import annotations

from collections.abc import Iterator

from perfcast.report.data.explained_result import ExplainedResultData
from perfcast.report.document import Block, Column, Document, Fact, Note, Provenance, Section, Table

_SHORT = 12
_VERDICTS = {
    "equal": "",
    "differs": "It comes out otherwise now.",
    "not computed": "It is not computed again.",
}


def document_of(found: ExplainedResultData) -> Document:
    """The outcome, what it was made from, what has changed, and the figures that differ."""
    return Document(
        title=f"{found.file}: a result of perfcast {found.verb}",
        verdict=_VERDICTS[found.outcome],
        lead=_lead(found),
        facts=tuple(_facts(found)),
        blocks=tuple(_blocks(found)),
        assumptions=found.assumptions,
        provenance=Provenance(sources=found.sources),
    )


def _lead(found: ExplainedResultData) -> str:
    if found.outcome == "equal":
        return f"Computed again it is equal: {found.num_compared:,} figures and texts."
    if found.outcome == "not computed":
        return f"{found.reason[:1].upper()}{found.reason[1:]}."
    return (
        f"{found.num_different:,} of {found.num_compared:,} figures and texts differ; "
        f"{found.reason[:1]}{found.reason[1:]}."
    )


def _facts(found: ExplainedResultData) -> Iterator[Fact]:
    if found.command:
        yield Fact("Asked by", found.command)
    yield from _list("Said", [f"{option} {value}" for option, value in found.said.items()])
    yield from _list("Usual", [f"{option} {value}" for option, value in found.usual.items()])
    yield from _list("By default", list(found.defaults))
    yield Fact("Made by", f"perfcast {found.made_by}")
    yield Fact("Catalog", found.catalog_sha256[:_SHORT])
    yield Fact("Weights", found.weights_sha256[:_SHORT])
    if found.measurements_sha256:
        yield Fact("Measurements", f"{found.measurements_sha256[:_SHORT]}, of one's own")
    yield Fact("Libraries", ", ".join(f"{name} {version}" for name, version in found.libraries.items()))
    yield from _list("Files", [f"{path} {digest[:_SHORT]}" for path, digest in found.inputs.items()])


def _list(label: str, texts: list[str]) -> Iterator[Fact]:
    if texts:
        yield Fact(label, "; ".join(texts))


def _blocks(found: ExplainedResultData) -> Iterator[Block]:
    if found.changes:
        rows = tuple((one.what, _cut(one.then), _cut(one.now)) for one in found.changes)
        yield Table(title="Changed since", columns=(Column(""), Column("Then"), Column("Now")), rows=rows)
    elif found.outcome != "not computed":
        yield Note("Nothing that decides its figures has changed since.")
    if found.differences:
        table = Table(
            columns=(Column("Figure"), Column("Then"), Column("Now"), Column("Difference", "share")),
            rows=tuple((one.path, one.then, one.now, one.relative) for one in found.differences),
            most_rows=20,
            things="differences",
        )
        yield Section(title="Figures that differ", blocks=(table,))


def _cut(text: str) -> str:
    """A digest, short; anything else as it is."""
    return (text[:_SHORT] if len(text) == 64 else text) or "none"
