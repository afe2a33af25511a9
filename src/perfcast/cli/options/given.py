"""Which options of the running command were written down, not left at their defaults."""

from __future__ import annotations

import click


def is_given(parameter: str) -> bool:
    """Whether an option was written down; outside a command none was."""
    context = click.get_current_context(silent=True)
    if context is None or parameter not in context.params:
        return False
    return context.get_parameter_source(parameter) is not click.core.ParameterSource.DEFAULT
