"""From a row of a search's tables to the question that forecasts its plan with the same figures."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping

from perfcast.errors import InputError
from perfcast.report.document import Block, Command, Document, Section
from perfcast.server.page.fields import fields_of, number_of, read_entry
from perfcast.server.page.view import Plain
from perfcast.verbs.question import question_class

_ASKS = "perfcast predict "


def question_of_plan(document: Document, cells: Mapping[str, str]) -> tuple[str, Plain]:
    """Verb and question of a plan's forecast: those of the best plan, which the search states, for another.

    Args:
        document: The search's answer.
        cells: Of the row, by heading.

    Raises:
        InputError: The row states no plan, or the search no command that forecasts its best one.
    """
    text = cells.get("Plan", "").partition(";")[0].strip()
    if not text:
        raise InputError("this row states no plan")
    command = next((line for line in _commands(document.blocks) if line.startswith(_ASKS)), None)
    if command is None:
        raise InputError("this is of a sweep over several; search one of them to look into its plans")
    plain = dict(plain_of_command("predict", command.removeprefix(_ASKS)))
    plain["plan"] = ",".join(text.split())
    if cells.get("Cluster"):
        plain["cluster"] = cells["Cluster"]
    if cells.get("Batch"):
        plain["batch_size"] = number_of(cells["Batch"].replace(",", ""))
    if "Method" in cells:
        plain.pop("closed_form", None)
    if cells.get("Method") == "closed form":
        plain["closed_form"] = True
    return "predict", plain


def plain_of_command(verb: str, text: str) -> Plain:
    """What options on a command line say, as plain data of the verb's question.

    Raises:
        InputError: A word that is no option and no argument of it.
    """
    fields, arguments = fields_of(verb), iter(question_class(verb).arguments)
    found: dict[str, object] = {}
    words = iter(shlex.split(text))
    for word in words:
        if not word.startswith("--"):
            name = next(arguments, None)
            if name is None:
                raise InputError(f"'{word}' is no option of {verb}")
            found[name] = read_entry(fields[name], word)
            continue
        name = word.removeprefix("--").replace("-", "_")
        if name not in fields:
            raise InputError(f"{word} is no option of {verb}")
        found[name] = True if fields[name].entry == "flag" else read_entry(fields[name], next(words, ""))
    return found


def _commands(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, Command):
            yield block.text
        elif isinstance(block, Section):
            yield from _commands(block.blocks)
