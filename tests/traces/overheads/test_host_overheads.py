"""Overheads are means that keep their sums; little is known of rare keys, which lean on coarser ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.errors import CalibrationError
from perfcast.traces.overheads.profile import apply_overheads, fit_overheads, keys_of, overheads_half_width
from perfcast.traces.overheads.store import load_overheads, save_overheads
from perfcast.traces.overheads.trimmed import fit_trimmed_overheads
from perfcast.traces.timeline.program import HostPiece, Overhead, RankProgram
from perfcast.traces.timeline.ranks import build_ranks
from perfcast.units import MICRO
from recorded_traces import two_kernels


def gaps(*examples: tuple[str, str, float], step: int = 0) -> RankProgram:
    """A program of gaps between operators: (before, after, microseconds)."""
    pieces = tuple(HostPiece(0, Overhead.BETWEEN, (b, a), s * MICRO, step=step) for b, a, s in examples)
    return RankProgram(0, 0.0, pieces, (), ("main",), (), ())


def test_keys_go_from_coarse_to_fine():
    gap = HostPiece(0, Overhead.BETWEEN, ("mm", "add"), 0.0, where="forward")
    pair = ("mm", "add", "forward")
    assert keys_of(gap) == ((), ("add",), ("mm", "add"), pair, (*pair, "#0"))
    call = HostPiece(0, Overhead.CALL, ("cudaLaunchKernel",), 0.0)
    assert keys_of(call) == (
        (),
        ("cudaLaunchKernel",),
        ("cudaLaunchKernel", ""),
        ("cudaLaunchKernel", "", "#0"),
    )


def test_an_estimate_leans_on_the_coarser_mean_by_hand():
    # All gaps: mean 4 of 2. Worth of a coarser mean: 1 example.
    program = gaps(("a", "b", 2), ("c", "d", 6))
    profile = fit_overheads([program], strength=1.0)
    # (b): (2 + 4) / 2 = 3; (a, b): (2 + 3) / 2 = 2.5; in its range: (2 + 2.5) / 2 = 2.25; in its place in the
    # step: (2 + 2.25) / 2 = 2.125. And 5.875.
    assert profile.seconds(program.pieces[0]) == pytest.approx(2.125 * MICRO)
    assert profile.seconds(program.pieces[1]) == pytest.approx(5.875 * MICRO)


def test_what_examples_differ_by_is_the_width_of_a_forecast_by_hand():
    profile = fit_overheads([gaps(("a", "b", 2), ("a", "b", 4), ("c", "d", 3))], strength=1e-9)
    program = gaps(("a", "b", 0), ("a", "b", 0))
    # Two pieces of 1 µs of deviation apart, of 2 and 4 µs by their places.
    expected = (
        1.6449 * 2**0.5 / sum(piece.seconds / MICRO for piece in apply_overheads(profile, program).pieces)
    )
    assert overheads_half_width(profile, program) == pytest.approx(expected)


def test_an_unseen_pair_takes_what_is_known_of_its_follower():
    profile = fit_overheads([gaps(("a", "b", 2), ("a", "b", 4), ("c", "d", 9))], strength=1e-9)
    unseen = HostPiece(0, Overhead.BETWEEN, ("x", "b"), 0.0)
    assert profile.seconds(unseen) == pytest.approx(3 * MICRO)
    assert profile.seconds(HostPiece(0, Overhead.BETWEEN, ("x", "y"), 0.0)) == pytest.approx(5 * MICRO)


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from("de"), st.floats(0.1, 500)), min_size=1, max_size=30
    )
)
def test_the_sum_over_what_was_fitted_is_kept(examples):
    program = gaps(*examples)
    profile = fit_overheads([program], strength=2.0)
    total = sum(piece.seconds for piece in apply_overheads(profile, program).pieces)
    assert total == pytest.approx(sum(piece.seconds for piece in program.pieces))


def test_the_strength_is_chosen_by_leaving_steps_out():
    # Pairs differ and repeat exactly: nothing is to be gained from the coarser mean.
    steps = [gaps(("a", "b", 2), ("c", "d", 50)) for _ in range(3)]
    assert fit_overheads(steps).strengths[Overhead.BETWEEN] == 0.05
    # Pairs are alike and vary at random: the coarser mean is the better guess.
    noisy = [gaps(("a", "b", x), ("c", "b", y)) for x, y in ((1, 9), (9, 1), (1, 9), (9, 1))]
    assert fit_overheads(noisy).strengths[Overhead.BETWEEN] > 1


def test_the_published_recipe_drops_the_tail_that_means_keep():
    program = gaps(*[("a", "b", 5.0)] * 20, ("a", "b", 150.0))
    trimmed = fit_trimmed_overheads([program])
    kept = fit_overheads([program], strength=1.0)
    assert trimmed.seconds(program.pieces[0]) == pytest.approx(5 * MICRO)
    assert kept.seconds(program.pieces[0]) == pytest.approx(250 / 21 * MICRO)


def test_the_published_recipe_takes_off_the_profiler():
    trimmed = fit_trimmed_overheads([gaps(("a", "b", 5.0))], profiler_event_seconds=2 * MICRO)
    assert trimmed.means[Overhead.BETWEEN][()].seconds == pytest.approx(3 * MICRO)


def test_a_profile_is_read_as_it_was_written(tmp_path: Path):
    program = build_ranks([two_kernels().read(tmp_path)])[0]
    profile = fit_overheads([program], host="this", framework="torch 2.13")
    save_overheads(profile, tmp_path / "profile.json")
    again = load_overheads(tmp_path / "profile.json")
    assert again == profile


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"schema": 9}', '{"schema": 1, "overheads": {"T9": {}}, "host": "", "framework": ""}'],
)
def test_what_is_no_profile_is_refused(tmp_path: Path, text: str):
    path = tmp_path / "profile.json"
    path.write_text(text)
    with pytest.raises(CalibrationError, match=r"profile\.json"):
        load_overheads(path)


def test_a_negative_or_endless_time_is_refused(tmp_path: Path):
    path = tmp_path / "profile.json"
    save_overheads(fit_overheads([gaps(("a", "b", 2))]), path)
    data = json.loads(path.read_text())
    data["overheads"]["T1"]["means"][0]["seconds"] = -1
    path.write_text(json.dumps(data))
    with pytest.raises(CalibrationError, match="damaged"):
        load_overheads(path)


def test_nothing_recorded_is_an_error():
    with pytest.raises(CalibrationError):
        fit_overheads([])
    with pytest.raises(CalibrationError):
        fit_trimmed_overheads([])
