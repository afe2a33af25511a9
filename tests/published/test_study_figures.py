"""Device figures as the study has them."""

from __future__ import annotations

import numpy as np
import pytest

from builders import made_up_device
from perfcast.catalogs.devices import load_device
from perfcast.core.dtype import DType
from perfcast.published.kernels.figures import collect_study_figures


def test_a_device_of_the_study_has_the_studys_figures_faults_included():
    figures = collect_study_figures((load_device("l4"), load_device("p4")), np.array([1, 0, 1]))
    assert figures.num_sms.tolist() == [40, 60, 40]  # in truth 20 and 58
    assert figures.gigabytes_per_second.tolist() == [192, 300, 192]
    assert figures.matrix_gigaflops == pytest.approx([5699, 31334, 5699])
    assert figures.l2_megabytes.tolist() == [2, 48, 2]


def test_amd_devices_have_two_peaks():
    figures = collect_study_figures((load_device("mi100"),), np.array([0]))
    assert (figures.matrix_gigaflops[0], figures.vector_gigaflops[0]) == (46100, 23100)


def test_another_device_has_its_datasheets():
    device = made_up_device()
    figures = collect_study_figures((device,), np.array([0]))
    assert figures.num_sms[0] == device.num_sms
    assert figures.vector_gigaflops[0] == device.vector_flops_per_second[DType.FP32] / 1e9
    assert figures.memory_gigabytes[0] == device.memory_bytes / 2**30
