"""``perfcast web``: refused in one line where its packages are missing or its bounds make no sense."""

from __future__ import annotations

import importlib.util

import pytest

from perfcast.cli import web
from perfcast.cli.main import run


def test_without_its_packages_one_line_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(web, "find_spec", lambda name: None)
    assert run(["web"]) == 2
    assert capsys.readouterr().err == "error: perfcast web needs more packages: pip install 'perfcast[web]'\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--workers", "0"], "workers"),
        (["--token", "short"], "token"),
        (["--port", "70000"], "70000"),
        (["--host", "no-such-host.invalid"], "no-such-host.invalid"),
    ],
)
def test_what_cannot_be_is_refused_with_exit_code_2(options, said, capsys):
    assert importlib.util.find_spec("nicegui"), "tests need perfcast[web]"
    assert run(["web", "--no-page", *options]) == 2
    assert said in capsys.readouterr().err


def test_every_bound_of_an_option_is_one_of_the_settings():
    from dataclasses import fields

    from perfcast.server.settings import Settings

    assert web._BOUNDS.keys() <= {one.name for one in fields(Settings)}
