"""The plan that was found, written for the framework that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfcast.core.plans.text import format_plan
from perfcast.errors import InputError, PlanError, UnknownNameError

if TYPE_CHECKING:
    from perfcast.core.plan import Plan
    from perfcast.searches.report.compose import SearchReport

#: Fastest plans by formula that are offered to a framework beside the ranked ones.
_MOST_ASKED = 2000


def check_hand_over(target: str | None, output: str | None) -> None:
    """Say before the search what its end could not do."""
    if (target is None) != (output is None):
        raise click.UsageError("--hand-over NAME and --output DIR go together")
    if target is None or output is None:
        return
    from perfcast.searches.handover import TARGETS

    if target not in TARGETS:
        raise UnknownNameError("target", target, TARGETS, f"Known: {', '.join(TARGETS)}.")
    if Path(output).exists() and not Path(output).is_dir():
        raise InputError(f"--output {output}: not a folder")


def write_hand_over(found: SearchReport, target: str, folder: str) -> tuple[str, ...]:
    """Write the files of the first plan that the target can run.

    Returns:
        Lines to be said: which plan, where it is not the winner, and the files.

    Raises:
        PlanError: It can run none of them; says what is in the winner's way.
    """
    from perfcast.files.writing import make_folder, write_text_atomically
    from perfcast.units import format_seconds

    plan, files, obstacle = _first_files(found, target)
    make_folder(folder)
    lines = []
    if obstacle:
        lines = [
            f"plan 1 is not handed over: {obstacle}",
            f"handed over is the next that {target} can run: {format_plan(plan, ' ')}; "
            f"{format_seconds(found.best.formula_seconds(plan))} a step by formula",
        ]
    for name, text in files.items():
        write_text_atomically(Path(folder) / name, text)
        lines.append(f"wrote {Path(folder) / name}")
    return tuple(lines)


def _first_files(found: SearchReport, target: str) -> tuple[Plan, Mapping[str, str], str]:
    """The first plan that a target can run, its files, and what is in the way of the winner ('' if nothing).

    The ranked plans are asked first, then the fastest others by formula.
    """
    from perfcast.searches.handover import hand_over
    from perfcast.searches.report.compose import best_cluster

    result, cluster, obstacle = found.best, best_cluster(found.comparison), ""
    for plan in result.best_plans(_MOST_ASKED):
        try:
            files = hand_over(
                plan, found.request.model, result.training, result.sequence_length, cluster, target
            )
        except PlanError as error:
            obstacle = obstacle or str(error)
            continue
        return plan, files, obstacle
    raise PlanError(
        f"none of the {len(result.ranked)} ranked plans nor of the {_MOST_ASKED:,} fastest by formula can be "
        f"handed over: {obstacle} A choice may be fixed, as with --fix schedule=1f1b."
    )
