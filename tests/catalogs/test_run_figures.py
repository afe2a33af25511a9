from pathlib import Path

import pytest

from perfcast.catalogs.runs import load_run_figures, parse_run_file
from perfcast.errors import CatalogError
from perfcast.units import DAY

SHIPPED = """
[sources]
paper = "A paper"
[interruptions.default]
count = { value = 10, unit = "1", source = "paper" }
time = { value = 5, unit = "day", source = "paper" }
devices = { value = 100, unit = "1", source = "paper" }
"""


def test_a_device_is_interrupted_as_seldom_as_all_devices_days_say() -> None:
    figure, is_own = load_run_figures().between_interruptions("hopper")
    assert is_own
    assert figure.si_value == pytest.approx(54 * DAY * 16_384 / 419)


def test_an_architecture_without_a_figure_takes_the_default() -> None:
    figures = load_run_figures()
    figure, is_own = figures.between_interruptions("made-up")
    assert not is_own
    assert figure is figures.interruptions["default"]


def test_a_missing_figure_is_named(tmp_path: Path) -> None:
    path = tmp_path / "runs.toml"
    path.write_text(SHIPPED)
    with pytest.raises(CatalogError, match="restart"):
        parse_run_file(path)
    path.write_text('[sources]\npaper = "A paper"\n')
    with pytest.raises(CatalogError, match=r"interruptions\.default"):
        parse_run_file(path)
