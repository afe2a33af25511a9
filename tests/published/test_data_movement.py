"""The data-movement model: the notebook's values, hand counts, and laws of the limits."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.errors import InputError
from perfcast.published.data_movement.compare import CHOSEN, NOTEBOOK, compare, measure_distance
from perfcast.published.data_movement.curve import (
    PUBLISHED_FILE,
    draw_curve,
    find_limits,
    largest_loss,
    latency_wall,
    read_published_curve,
)
from perfcast.published.data_movement.layer import (
    H100_SXM5,
    LinearLayer,
    all_reduce_words,
    count_gradients,
    count_microbatch,
    main,
    published_seconds,
    time_movement,
)
from perfcast.published.data_movement.limits import (
    Plan,
    ScalingAssumptions,
    scale_run,
    size_run,
    time_step,
)

DEFAULT = ScalingAssumptions()
ALONE = Plan(tensor=1.0, pipeline=1.0, data=1.0, expert=1.0, num_microbatches=1.0)
WIDTH = 16384


def layer(t_in: int = 8, t_out: int = 40) -> LinearLayer:
    return LinearLayer(WIDTH, 5 * WIDTH, t_in, t_out, num_replicas=32)


@pytest.mark.parametrize(
    ("split", "tokens", "word_bytes", "bound", "seconds"),
    [
        ((8, 40), 2048**2 / 128, 2, "compute", 3.2554072481051035e-05),
        ((8, 40), 4096, 1, "memory", 6.89672553699284e-06),
        ((16, 80), 32768, 2, "network", 1.3456725333333334e-05),
    ],
)
def test_the_notebooks_seconds_to_the_last_digit(split, tokens, word_bytes, bound, seconds):
    time = time_movement(count_microbatch(layer(*split), tokens), H100_SXM5, word_bytes)
    assert time.seconds == getattr(time, f"{bound}_seconds") == seconds


def test_the_notebooks_end_of_a_batch_to_the_last_digit():
    assert time_movement(count_gradients(layer()), H100_SXM5, 2).seconds == 2.7088213333333335e-05


def test_the_command_prints_four_values_without_difference(capsys):
    assert main() == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    assert [row.split()[-1] for row in rows] == ["0.0"] * len(published_seconds()) == ["0.0"] * 4


def test_an_undivided_layer_moves_its_weights_four_times_and_its_inputs_once():
    work = count_microbatch(LinearLayer(8, 4), 3)
    assert (work.flops, work.memory_words, work.network_words) == (6 * 32 * 3, 4 * 32 + 8 * 3, 0)


def test_an_all_reduce_of_two_sends_half_and_receives_twice_half():
    assert all_reduce_words(10, 2) == 15
    assert all_reduce_words(10, 1) == 0


def test_arrays_of_degrees_give_what_each_gives():
    grid = count_microbatch(LinearLayer(64, 32, np.array([1, 2, 4]), 2, 2), 16)
    alone = [count_microbatch(LinearLayer(64, 32, t, 2, 2), 16).memory_words for t in (1, 2, 4)]
    assert grid.memory_words.tolist() == alone


def test_a_run_spends_its_compute_on_its_parameters_and_tokens():
    run = size_run(3e27, DEFAULT)
    assert 6 * run.num_parameters * run.num_tokens == pytest.approx(3e27)
    assert 2 * 5 * run.width**2 * run.num_blocks == pytest.approx(run.num_parameters)
    assert run.step_seconds * run.num_tokens / run.batch_tokens == pytest.approx(DEFAULT.run_seconds)


def test_at_the_reference_batch_and_aspect_are_the_given_ones():
    run = size_run(DEFAULT.reference_flops, DEFAULT)
    assert run.batch_tokens == DEFAULT.batch_tokens
    assert run.width / run.num_blocks == pytest.approx(DEFAULT.aspect)


def test_without_delays_a_step_is_the_makespan_of_1f1b():
    free = replace(DEFAULT, launch_seconds=0.0, hop_seconds=0.0, sparsity=1.0)
    run = size_run(1e26, free)
    plan = replace(ALONE, pipeline=4.0, num_microbatches=6.0)
    time = time_step(run, plan, H100_SXM5, free)
    slot = (time.arithmetic_seconds + time.movement_seconds) / 6
    assert time.seconds == pytest.approx(slot * (6 + 4 - 1))
    interleaved = time_step(run, plan, H100_SXM5, replace(free, num_chunks=3.0))
    assert interleaved.seconds == pytest.approx(slot * (6 + (4 - 1) / 3))


def test_one_microbatch_on_one_device_waits_for_each_launch():
    dense = replace(DEFAULT, sparsity=1.0)
    run = size_run(1e26, dense)
    time = time_step(run, ALONE, H100_SXM5, dense)
    assert time.latency_seconds == pytest.approx(4 * dense.launch_seconds * run.num_blocks)
    assert (time.bubble_seconds, time.gradient_seconds) == (0, 0)


@given(
    st.floats(24, 31), st.floats(0, 12), st.floats(0, 8), st.floats(0, 8), st.floats(0, 3), st.floats(0, 8)
)
def test_no_step_is_shorter_than_the_launches_of_all_blocks(power, tensor, pipeline, data, expert, micro):
    run = size_run(10**power, DEFAULT)
    plan = Plan(2**tensor, min(2**pipeline, run.num_blocks), 2**data, 2**expert, 2**micro)
    time = time_step(run, plan, H100_SXM5, DEFAULT)
    assert time.seconds >= 4 * DEFAULT.launch_seconds * run.num_blocks
    parts = (time.arithmetic_seconds, time.movement_seconds, time.latency_seconds, time.bubble_seconds)
    assert min(*parts, time.gradient_seconds) >= -1e-12


def test_the_best_plan_ends_in_time_and_accounts_for_all_the_compute():
    scaled = scale_run(1e28, H100_SXM5, DEFAULT)
    assert scaled.plan is not None
    assert scaled.time is not None
    assert scaled.time.seconds <= scaled.run.step_seconds
    peak = scaled.plan.num_devices * H100_SXM5.byte_flops_per_second / DEFAULT.word_bytes
    steps = scaled.run.num_tokens / scaled.run.batch_tokens
    assert scaled.utilization * peak * float(scaled.time.seconds) * steps == pytest.approx(1e28)


def test_utilization_falls_from_its_base_to_nothing():
    curve = draw_curve([1e24, 1e28, 1e30, 1e34], H100_SXM5, DEFAULT)
    values = [scaled.utilization for scaled in curve]
    assert values == sorted(values, reverse=True)
    assert values[0] == pytest.approx(DEFAULT.base_utilization, abs=0.002)
    assert (values[-1], curve[-1].plan, largest_loss(curve[-1])) == (0.0, None, "")


def test_limits_stand_in_order_and_larger_batches_move_them_out():
    limits, larger = (
        find_limits(H100_SXM5, replace(DEFAULT, sparsity=1.0, batch_exponent=exponent))
        for exponent in (1 / 6, 1 / 3)
    )
    (_, most), (_, half) = limits.kept_flops
    assert most < half < limits.last_flops <= limits.latency_wall_flops
    assert larger.kept_flops[0][1] > 10 * most
    assert larger.last_flops > 10 * limits.last_flops
    assert scale_run(half, H100_SXM5, replace(DEFAULT, sparsity=1.0)).utilization == pytest.approx(
        limits.base_utilization / 2, rel=0.02
    )


def test_at_the_latency_wall_launches_fill_the_step():
    run = size_run(latency_wall(DEFAULT), DEFAULT)
    assert 4 * DEFAULT.launch_seconds * run.num_blocks == pytest.approx(run.step_seconds)


def test_there_is_no_latency_wall_without_launches_or_with_batches_that_outgrow_it():
    assert math.isinf(latency_wall(replace(DEFAULT, launch_seconds=0.0)))
    assert math.isinf(latency_wall(replace(DEFAULT, batch_exponent=0.7)))


def test_a_run_that_no_plan_ends_has_no_limits():
    with pytest.raises(InputError, match="no plan ends a run"):
        find_limits(H100_SXM5, replace(DEFAULT, run_seconds=1.0))


@pytest.mark.parametrize(
    ("name", "value"), [("sparsity", 0.5), ("run_seconds", 0.0), ("hop_seconds", -1.0), ("aspect", math.nan)]
)
def test_impossible_assumptions_are_refused_by_name(name, value):
    with pytest.raises(InputError, match=f"{name} = "):
        ScalingAssumptions(**{name: value})


def test_the_published_curve_is_read_and_compared(tmp_path: Path):
    folder = tmp_path / "published"
    folder.mkdir()
    header = "log10_training_flop,theoretical_utilization_pct_digitised,source\n"
    (folder / PUBLISHED_FILE).write_text(f"{header}25.0,69.8,figure\n28.0,64.9,figure\n")
    published = read_published_curve(tmp_path)
    assert published == [(1e25, pytest.approx(0.698)), (1e28, pytest.approx(0.649))]
    curve = draw_curve([flops for flops, _ in published], H100_SXM5, DEFAULT)
    assert [run.utilization for run in curve] == pytest.approx([theirs for _, theirs in published], abs=0.05)


@pytest.mark.parametrize("text", [None, "", "a,b\n1,2\n", "log10_training_flop\nx\n"])
def test_a_folder_without_a_readable_curve_is_an_error(tmp_path: Path, text: str | None):
    if text is not None:
        (tmp_path / PUBLISHED_FILE).write_text(text)
    with pytest.raises(InputError):
        read_published_curve(tmp_path)


def test_a_distance_of_curves_is_in_points_of_utilization():
    found = measure_distance([(1e25, 0.7), (1e26, 0.5)], [0.71, 0.47])
    assert (found.mean_points, found.largest_points) == pytest.approx((2.0, 3.0))


def test_the_notebooks_parameters_differ_from_the_chosen_ones_in_the_base_utilization_alone():
    assert NOTEBOOK.base_utilization == H100_SXM5.base_utilization == 0.8
    assert replace(NOTEBOOK, base_utilization=CHOSEN.base_utilization) == CHOSEN


def test_the_curve_is_compared_under_both_sets_of_parameters_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("perfcast.published.data_movement.compare._STEPS", 1)  # points of a decade drawn
    lines = "log10_training_flop,theoretical_utilization_pct_digitised\n25,69.8\n28,64.9\n"
    (tmp_path / PUBLISHED_FILE).write_text(lines)
    found = compare(tmp_path)
    rows = {one.what: one for one in found.figures if one.what.startswith("utilization at")}
    assert [one.published for one in rows.values()] == pytest.approx([69.8, 64.9] * 2)
    chosen, notebook = (
        rows[f"utilization at 1.0e+25 FLOP, {name} parameters"] for name in ("chosen", "notebook's")
    )
    assert (chosen.difference, notebook.difference) == pytest.approx((0.2, 10.1), abs=0.2)
    assert found.plots[0].series[-1].name == "published"
    assert [y for _, y in found.plots[0].series[-1].points] == pytest.approx([0.698, 0.649])
    assert not found.reason
