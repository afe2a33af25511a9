from __future__ import annotations

import numpy as np
import pytest

from perfcast.catalogs.devices import load_device
from perfcast.core.kernel import join_kernel_tables
from perfcast.cost.learned.corrections.covariance import load_covariance
from perfcast.cost.learned.corrections.traits import describe_traits
from perfcast.cost.learned.store import load_family
from perfcast.errors import InputError
from perfcast.evidence.validate.kernels.few_measurements import (
    DeviceKernels,
    FewResult,
    check_numbers,
    choose_rows,
    score_device,
)
from perfcast.measure.few.cases import few_cases
from perfcast.report.documents.evidence.few_measurements import document_of

DEVICE = load_device("rtx-4090")


@pytest.fixture(scope="module")
def slower() -> DeviceKernels:
    """Products in bf16, each measured four times, all a half slower than forecast."""
    cases = [case for case in few_cases().values() if case.name.startswith("linear bf16")]
    table = join_kernel_tables([case.kernel(1.0, "nvidia").table() for case in cases for _ in range(4)])
    fitted, index = load_family("product_narrow"), np.zeros(len(table), dtype=np.int64)
    estimates = fitted.estimate(table, [DEVICE], index)
    traits = describe_traits(fitted, table, DEVICE, estimates, fitted.describe(table, [DEVICE], index))
    sides = (np.log(side / estimates.seconds) for side in (estimates.seconds_low, estimates.seconds_high))
    return DeviceKernels(DEVICE, traits, np.full(len(table), np.log(1.5)), *sides)


def test_each_row_stands_for_one_designed_kernel(slower: DeviceKernels):
    chosen = choose_rows(slower, 8, draw=0)
    assert len(set(chosen.tolist())) == len(chosen) == 8


def test_errors_that_all_kernels_share_fall_with_measurements(slower: DeviceKernels):
    scores = list(score_device(slower, (0, 2, 8), 2, load_covariance()))
    result = FewResult("kernels", {}, tuple(scores))
    means = [e["mean_error"] for e in result.summary if e["group"] == "operation"]
    assert means[0] == pytest.approx(1 / 3)
    assert means[0] > means[1] > means[2]
    (table, _) = document_of(result.summary).blocks
    assert table.rows[0][:2] == ("product", "of which some were measured")


def test_none_is_always_one_of_the_numbers():
    assert check_numbers((40, 8, 8)) == (0, 8, 40)
    with pytest.raises(InputError, match="at least 0"):
        check_numbers((-1,))
