"""``perfcast mesh profile`` as a person meets it; nothing is launched here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from perfcast.cli.mesh.cost import cost
from perfcast.cli.mesh.profile import profile
from perfcast.cost.cluster_profile import load_cluster_profile
from perfcast.errors import InputError

ROWS = "".join(
    f"{size} {size // 4} float sum -1 {us:.2f} {size / us / 1e3:.2f} {size / us / 1e3 * 1.5:.2f} 0 "
    f"{us:.2f} {size / us / 1e3:.2f} {size / us / 1e3 * 1.5:.2f} 0\n"
    for size, us in ((2**k, 20 + 2**k / 1e5) for k in range(10, 31))
)
LOG = f"""\
# Collective test starting: all_reduce_perf
#  size count type redop root time algbw busbw #wrong time algbw busbw #wrong
{ROWS}# Avg bus bandwidth    : 86.5
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "run.log"
    path.write_text(LOG)
    return path


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch):
    for name in ("RANK", "WORLD_SIZE", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(profile, [str(a) for a in arguments])


def refusal(*arguments: str | Path) -> str:
    error = run(*arguments).exception
    assert isinstance(error, InputError), error
    return str(error)


def test_a_log_becomes_a_profile_without_running_anything(log: Path, tmp_path: Path):
    result = run("--from-log", log, "--output", tmp_path / "p.json")
    assert result.exit_code == 0, result.exception
    for word in ("ranks4=4", "all_reduce", "20.0 µs", "wrote"):
        assert word in result.output
    curve = load_cluster_profile(tmp_path / "p.json").axis("ranks4").curves["all_reduce"]
    assert curve.seconds(2**26) == pytest.approx(20e-6 + 2**26 / 1e11, rel=0.01)


def test_each_axis_has_its_line_printed_and_drawn(log: Path, tmp_path: Path):
    result = run("--from-log", log, "--output", tmp_path / "p.json", "--picture", tmp_path / "p.svg")
    assert "Latency  Bandwidth" in result.output
    assert " 20.0 µs   100 GB/s " in result.output
    drawn = (tmp_path / "p.svg").read_text()
    assert "latency + bytes / bandwidth" in drawn
    assert "stroke-dasharray" in drawn


def test_the_mesh_names_the_axis_of_a_log(log: Path, tmp_path: Path):
    result = run("--from-log", log, "--mesh", "dp=2,tp=4", "--output", tmp_path / "p.json", "--json", "-")
    assert [axis["name"] for axis in json.loads(result.output)["axes"]] == ["tp"]


def test_a_log_must_belong_to_one_axis(log: Path, tmp_path: Path):
    message = refusal("--from-log", log, "--mesh", "dp=4,tp=4", "--output", tmp_path / "p.json")
    assert "a log of 4 ranks belongs to 2 axes of --mesh dp=4,tp=4" in message


def test_a_foreign_log_is_bad_input(tmp_path: Path):
    (tmp_path / "x.log").write_text("hello\n")
    assert "no table was found" in refusal("--from-log", tmp_path / "x.log", "--output", tmp_path / "p.json")


def test_the_number_of_ranks_must_be_said(tmp_path: Path):
    assert "how many ranks?" in refusal("--backend", "gloo", "--output", tmp_path / "p.json")


def test_a_mesh_that_does_not_hold_the_ranks_is_refused_before_anything_starts(tmp_path: Path):
    message = refusal("--ranks", "4", "--mesh", "dp=3", "--backend", "gloo", "--output", tmp_path / "p.json")
    assert "3 = 3 places does not hold 4 ranks" in message


def test_a_place_that_cannot_be_written_is_refused_before_anything_starts(tmp_path: Path):
    message = refusal("--ranks", "2", "--backend", "gloo", "--output", tmp_path / "none" / "p.json")
    assert "does not exist" in message


def test_the_page_draws_measured_times_beside_the_curve_of_each_axis(log: Path, tmp_path: Path):
    page = tmp_path / "p.html"
    result = run("--from-log", log, "--mesh", "tp=4", "--output", tmp_path / "p.json", "--html", page)
    assert result.exit_code == 0, result.exception
    html = page.read_text()
    assert 'id="figure-axis-0"' in html
    assert "all reduce, measured" in html


def test_a_profile_stands_beside_the_forecast_of_the_same_sizes_in_the_text(log: Path, tmp_path: Path):
    run("--from-log", log, "--mesh", "world=4", "--output", tmp_path / "p.json")
    asked = ["--cluster", "dgx-h100:4", "--collective", "all_reduce", "--bytes", "64MiB"]
    result = CliRunner().invoke(cost, [*asked, "--profile", str(tmp_path / "p.json")])
    assert "Beside profile log" in result.output
    assert "691 µs" in result.output  # 20 µs and 64 MiB at 100 GB/s
