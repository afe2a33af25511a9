"""What standard error says of a wait."""

import io
import time

import pytest

from perfcast.cli import progress


@pytest.fixture
def hasty(monkeypatch):
    monkeypatch.setattr(progress, "_QUIET_SECONDS", 0.05)
    monkeypatch.setattr(progress, "_LINE_SECONDS", 0.05)


def test_nothing_is_said_of_a_short_wait(capsys):
    with progress.status("thinking") as tell:
        tell(0.5, "nearly")
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("hasty")
def test_a_long_wait_is_told_line_by_line_where_there_is_no_terminal(capsys):
    with progress.status("thinking") as tell:
        time.sleep(0.12)
        tell(0.25, "weighing plans")
        time.sleep(0.2)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("thinking … 0 s\n")
    assert "weighing plans (25 %) … 0 s\n" in captured.err


@pytest.mark.usefixtures("hasty")
def test_a_terminal_has_one_line_that_is_gone_in_the_end(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    with progress.status("thinking"):
        time.sleep(0.3)
    assert "thinking" in stream.getvalue()


@pytest.mark.usefixtures("hasty")
def test_an_error_ends_it():
    def fail():
        with progress.status("thinking"):
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
