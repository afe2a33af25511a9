from __future__ import annotations

from pathlib import Path

import pytest

from perfcast.core.training import FRAMEWORKS
from perfcast.errors import CatalogError
from perfcast.prediction.step.constants import load_step_constants, parse_step_constants
from perfcast.units import MICRO, MILLI

LAUNCHES = "\n".join(f'{name} = {{ value = 5.0, unit = "us", source = "s" }}' for name in FRAMEWORKS)
REST = '[interval]\nwidening = { value = 2.0, unit = "1", source = "s" }\n[sources]\ns = "by hand"\n'


def parsed(tmp_path: Path, text: str):
    path = tmp_path / "constants.toml"
    path.write_text(text, encoding="utf-8")
    return parse_step_constants(path)


def test_every_framework_has_a_launch_time_of_some_microseconds():
    constants = load_step_constants()
    assert set(constants.launch_seconds) == set(FRAMEWORKS)
    assert all(MICRO / 2 < seconds < MILLI for seconds in constants.launch_seconds.values())
    assert constants.interval_widening > 0


def test_figures_are_read_in_seconds(tmp_path: Path):
    fixed = '[fixed]\nmegatron = { value = 1500, unit = "us", source = "s" }\n'
    constants = parsed(tmp_path, f"[launch]\n{LAUNCHES}\n{fixed}{REST}")
    assert constants.launch_seconds["fsdp"] == pytest.approx(5 * MICRO)
    assert dict(constants.fixed_seconds) == {"megatron": pytest.approx(1.5 * MILLI)}
    assert constants.interval_widening == 2.0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"[launch]\n{REST}", "no launch time of pytorch"),
        (f'[launch]\n{LAUNCHES}\njax = {{ value = 1.0, unit = "us", source = "s" }}\n{REST}', "jax"),
        (f"[launch]\n{LAUNCHES}\n[sources]{REST.split('[sources]')[1]}", "no widening"),
        (f"[launch]\n{LAUNCHES.replace('5.0', '-5.0')}\n{REST}", "not a positive number"),
    ],
)
def test_a_file_that_leaves_something_out_is_refused(tmp_path: Path, text: str, says: str):
    with pytest.raises(CatalogError, match=says):
        parsed(tmp_path, text)
