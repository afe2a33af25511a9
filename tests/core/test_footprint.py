from __future__ import annotations

from dataclasses import replace

from made_up_programs import KERNELS
from perfcast.core.forecast.footprint import Footprint, PeakCandidate, PlanMemory, StageFootprint, Term
from perfcast.core.plan import Plan
from perfcast.core.tensor import Category


def term(num_bytes: int) -> Term:
    return Term("weights", Category.PARAMETER, num_bytes, "by hand", "by hand")


EARLY = PeakCandidate("loss", (term(3), term(4)))
LATE = PeakCandidate("layer backward", (term(5), term(6)))
STAGES = (StageFootprint(0, (EARLY,)), StageFootprint(1, (EARLY, LATE)))
FOOTPRINT = Footprint(
    stages=STAGES,
    peak_bytes_low=10,
    peak_bytes_high=13,
    reserved_bytes=12,
    reserved_bytes_low=10,
    reserved_bytes_high=14,
    context_bytes=8,
)


def memory(capacity_bytes: int) -> PlanMemory:
    return PlanMemory(
        model="m",
        device="d",
        device_title="D",
        mode="train",
        plan=Plan(),
        training=None,
        program=KERNELS,
        dtype="bf16",
        sequence_length=1,
        parameter_count=1,
        capacity_bytes=capacity_bytes,
        footprint=FOOTPRINT,
    )


def test_a_moment_holds_the_sum_of_its_terms():
    assert EARLY.num_bytes == 7


def test_the_peak_is_the_fullest_moment_of_the_fullest_stage():
    assert STAGES[1].peak is LATE
    assert FOOTPRINT.peak_stage is STAGES[1]
    assert FOOTPRINT.peak_bytes == 11


def test_the_device_holds_what_is_reserved_and_the_context():
    assert FOOTPRINT.device_bytes == 12 + 8


def test_it_fits_up_to_the_last_byte():
    assert memory(20).fits
    assert not memory(19).fits


def test_of_equal_stages_the_first_is_named():
    both = replace(FOOTPRINT, stages=(StageFootprint(0, (LATE,)), StageFootprint(1, (LATE,))))
    assert both.peak_stage.stage == 0
