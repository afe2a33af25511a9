"""``perfcast validate``: measured against predicted, one suite at a time."""

from __future__ import annotations

import click

from perfcast.cli.options import output_options
from perfcast.errors import InputError, UnknownNameError

_SUITES = ("local",)


@click.command()
@click.argument("suite")
@click.option("--data", multiple=True, metavar="DIR", help="Measured data; may be repeated. Not for 'local'.")
@click.option("--max-rows", type=click.IntRange(min=1), default=100_000, show_default=True)
@click.option("--predictor", "predictors", multiple=True, help="May be repeated; default: all.")
@click.option("--write-spread", metavar="FILE", help="Rewrite the file of measured over predicted.")
@output_options(html=False, timeline=False)
def validate(
    suite: str,
    data: tuple[str, ...],
    max_rows: int,
    predictors: tuple[str, ...],
    write_spread: str | None,
    json_path: str | None,
) -> None:
    """Compare forecasts with measurements. SUITE is 'local': small models, predicted and really run here."""
    if suite not in _SUITES:
        raise UnknownNameError("suite", suite, _SUITES, f"Known: {', '.join(_SUITES)}.")
    if data:
        raise InputError("suite 'local' measures this machine; it takes no --data")
    from pathlib import Path

    from rich.console import Console

    from perfcast.cost.profile import load_local_profile
    from perfcast.files import check_writable
    from perfcast.report.validation import print_row, print_summary
    from perfcast.validate import local

    for path in (json_path, write_spread):
        check_writable(path)
    console = Console(highlight=False, stderr=json_path == "-")
    result = local.validate_local(
        predictors or local.PREDICTORS,
        max_rows=max_rows,
        on_row=lambda row: print_row(row.to_json(), console),
    )
    print_summary(result.summary, console)
    if json_path:
        from perfcast.report.json_format import write_json

        write_json(result.to_json(), json_path)
    if write_spread:
        machine = local.describe_machine(load_local_profile())
        local.write_spread(Path(write_spread), result, machine)
        console.print(f"wrote {write_spread}", markup=False)
