"""The regressors of Lin et al.: a net for each family and device, scored on sizes that it has not seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from perfcast.catalogs.devices import load_device
from perfcast.core.dtype import DType
from perfcast.core.kernel import KernelFamily, build_kernel_table
from perfcast.errors import PlanError
from perfcast.evidence.train.published import lin2024
from perfcast.evidence.train.published.request import TrainingRequest
from perfcast.published.kernels.roofline import KernelRoofline
from perfcast.published.multi_gpu_2024.cost import Lin2024Cost, load_lin2024_cost
from perfcast.published.multi_gpu_2024.predictor import WithoutLaunch, load_lin2024
from perfcast.published.nets.store import read_record
from published.study_tables import FLOPS_PER_SECOND, write_study_tables

MEASURED, SAME_DIE = load_device("v100-pcie-32gb"), load_device("v100-sxm2-32gb")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data, folder = tmp_path_factory.mktemp("tables"), tmp_path_factory.mktemp("lin2024")
    request = TrainingRequest(
        data=write_study_tables(data, rows_per_device=60), folder=folder, seed=0, vendor="nvidia",
        left_out=(), num_epochs=12,
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lin2024, "WIDTH", 64)
        patch.setattr(lin2024, "LEARNING_RATE", 3e-3)
        patch.setattr(lin2024, "BATCH_SIZE", 8)
        lin2024.train_lin2024(request)
    return folder


def products(sizes, dtype="fp32"):
    batch, m, k, n = np.array(sizes, dtype=float).T
    return build_kernel_table(
        KernelFamily.PRODUCT, len(sizes), batch=batch, m=m, k=k, n=n, operation="bmm", layout="nn",
        dtype=dtype, framework="pytorch",
    )  # fmt: skip


def test_left_out_sizes_are_the_same_in_all_their_rows_and_a_fifth():
    shape = np.random.default_rng(0).integers(1, 40, (4000, 2)).astype(float)
    chosen = lin2024.left_out(shape, seed=0)
    assert all(len({bool(c) for c in chosen[(shape == one).all(axis=1)]}) == 1 for one in shape[:50])
    assert 0.15 < chosen.mean() < 0.25


def test_the_record_has_errors_of_sizes_left_out_by_family_and_device(folder):
    record = read_record(folder, "lin2024")
    scores = record["scores"]
    assert set(scores) == {"product", "convolution", "layer_norm", "memory_bound"}
    product = scores["product"]["v100-pcie-32gb"]
    assert 0 < product["rows"] < 120 - record["nets"]["product.v100-pcie-32gb"]["num_train"]
    assert product["gmae"] < 0.25
    assert set(scores["memory_bound"]) == {"add", "gelu", "softmax"}


def test_each_device_has_its_own_pace(folder):
    predictor = load_lin2024(folder)
    devices = (MEASURED, load_device("t4"))
    v100, t4 = predictor.predict(products([(16, 512, 512, 512)] * 2), devices, np.array([0, 1]))
    assert v100 < t4
    work = 2 * 16 * 512**3
    assert v100 == pytest.approx(work / FLOPS_PER_SECOND["Tesla V100-PCIE-32GB"], rel=0.5)


def test_a_device_on_the_same_die_is_faster_by_its_peak_and_others_have_no_net(folder):
    predictor = load_lin2024(folder)
    devices = (MEASURED, SAME_DIE, load_device("h100-sxm"))
    seconds = predictor.predict(products([(4, 256, 256, 256)] * 3), devices, np.arange(3))
    peaks = [one.vector_flops_per_second[DType.FP32] for one in devices]
    assert seconds[0] / seconds[1] == pytest.approx(peaks[1] / peaks[0])
    assert np.isnan(seconds[2])
    with pytest.raises(PlanError, match="none for h100-sxm"):
        load_lin2024_cost(folder).estimate([], devices[2])


def test_in_a_step_the_smallest_kernels_take_the_roofline_and_large_ones_what_was_measured(folder):
    predictor = load_lin2024(folder)
    kernels = products([(1, 8, 8, 8), (64, 1024, 1024, 1024)])
    alone = predictor.predict(kernels, (MEASURED,), np.zeros(2, int))
    floors = {"product.v100-pcie-32gb": 2 * alone[0]}
    small, large = WithoutLaunch(predictor, floors).predict(kernels, (MEASURED,), np.zeros(2, int))
    bound = KernelRoofline().predict(kernels, (MEASURED,), np.zeros(2, int))[0]
    assert (small, large) == (pytest.approx(min(bound, alone[0])), pytest.approx(alone[1]))


def test_other_formats_have_no_model(folder):
    found = load_lin2024(folder).predict(products([(1, 64, 64, 64)], "bf16"), (MEASURED,), np.array([0]))
    assert np.isnan(found).all()


def test_it_is_a_cost_model_by_name(folder):
    assert isinstance(load_lin2024_cost(folder), Lin2024Cost)
