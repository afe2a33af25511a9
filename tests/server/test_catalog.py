"""The catalog over HTTP is the command line's."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from perfcast.cli.main import cli


@pytest.mark.parametrize(
    ("path", "arguments"),
    [
        ("devices", ["devices"]),
        ("devices/h100-sxm", ["devices", "h100-sxm"]),
        ("models/gpt2", ["models", "gpt2"]),
        ("clusters", ["clusters"]),
    ],
)
def test_it_is_what_json_of_the_command_line_is(api, path, arguments):
    result = CliRunner().invoke(cli, ["catalog", *arguments, "--json", "-"])
    assert api.get(f"/api/v1/catalog/{path}").text == result.output


def test_an_unknown_name_is_not_found_and_close_ones_are_told(api):
    response = api.get("/api/v1/catalog/devices/h100-sxmm")
    assert response.status_code == 404
    assert "h100-sxm" in response.json()["close_names"]


@pytest.mark.parametrize(
    "path",
    [
        "nothing",
        "clusters/mine.toml",
        "clusters/..%2f..%2fetc%2fpasswd",
        "clusters/%2Fetc%2Fhosts",
        "models/%00",
    ],
)
def test_no_file_is_read_by_its_name(api, path):
    assert api.get(f"/api/v1/catalog/{path}").status_code == 404
