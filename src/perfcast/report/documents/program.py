"""What every answer says first of a step: which program runs, which option changes it, what was chosen."""

from __future__ import annotations

from collections.abc import Sequence

from perfcast.core.program import StepProgram
from perfcast.report.document import Fact


def program_facts(program: StepProgram, defaults: Sequence[str]) -> tuple[Fact, ...]:
    """The program, and what was chosen of precision and sequence where nothing was asked for."""
    found = [Fact("Program", program.what)]
    if program.instead:
        found.append(Fact("", f"({program.instead})"))
    if defaults:
        found.append(Fact("By default", "; ".join(defaults)))
    return tuple(found)
