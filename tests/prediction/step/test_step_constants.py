from __future__ import annotations

from pathlib import Path

import pytest

from perfcast.core.training import FRAMEWORKS
from perfcast.errors import CatalogError
from perfcast.frameworks.load import load_training_profile
from perfcast.prediction.step.constants import load_step_constants, parse_interval_widening

SOURCES = '[sources]\ns = "by hand"\n'


def parsed(tmp_path: Path, text: str) -> float:
    path = tmp_path / "constants.toml"
    path.write_text(text, encoding="utf-8")
    return parse_interval_widening(path)


def test_hosts_are_those_of_the_frameworks():
    constants = load_step_constants()
    hosts = {name: load_training_profile(name).host for name in FRAMEWORKS}
    assert constants.launch_seconds == {name: host.launch_seconds for name, host in hosts.items()}
    assert constants.fixed_seconds == {name: host.fixed_seconds for name, host in hosts.items()}
    assert constants.interval_widening > 0


def test_the_interval_is_widened_by_a_figure(tmp_path: Path):
    interval = '[interval]\nwidening = { value = 2.0, unit = "1", source = "s" }\n'
    assert parsed(tmp_path, interval + SOURCES) == 2.0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (SOURCES, "no widening"),
        (
            '[interval]\nwidening = { value = -2.0, unit = "1", source = "s" }\n' + SOURCES,
            "not a positive number",
        ),
        ('[interval]\nwidening = { value = 2.0, unit = "1", source = "s" }\n', "is not in the file"),
    ],
)
def test_a_file_that_leaves_something_out_is_refused(tmp_path: Path, text: str, says: str):
    with pytest.raises(CatalogError, match=says):
        parsed(tmp_path, text)
