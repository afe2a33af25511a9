"""What rich prints."""

from __future__ import annotations

import pytest
from rich.table import Table
from rich.text import Text

from perfcast.printer.boxes import visible_console

HOSTILE = "\x1b[31m\x1b]0;owned\u202e[bold]name[/bold]\x9b2J"


@pytest.mark.parametrize("is_error", [False, True])
def test_no_name_commands_the_terminal_and_none_is_markup(is_error, capsys):
    console = visible_console(is_error=is_error)
    table = Table()
    table.add_column(Text(HOSTILE))
    table.add_row(HOSTILE)
    for shown in (HOSTILE, Text(HOSTILE), table):
        console.print(shown, soft_wrap=True)
    out, err = capsys.readouterr()
    said = err if is_error else out
    assert (out if is_error else err) == ""
    assert not set(said) & set("\x1b\x9b\u202e")
    assert said.count("\\x1b[31m\\x1b]0;owned\\u202e[bold]name[/bold]\\x9b2J") == 4


def test_rich_still_colours_a_terminal(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    visible_console().print(Text("warm", style="red"))
    assert "\x1b[31mwarm\x1b[0m" in capsys.readouterr().out
