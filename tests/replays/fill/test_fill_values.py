"""Given tensors hold what their filling says."""

from pathlib import Path

import numpy as np
import pytest
import torch

from perfcast.core.embedding.reuse import count_reuse
from perfcast.errors import TraceError
from perfcast.replays.fill.values import fill_tensor
from perfcast.replays.program.program import Fill, Filling


def filled(filling: Filling, *shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    tensor = torch.full(shape, 77, dtype=dtype)
    fill_tensor(tensor, filling, seed=1)
    return tensor


def test_offsets_rise_from_0_evenly() -> None:
    assert filled(Filling(Fill.OFFSETS, 0, 12), 4).tolist() == [0, 3, 6, 9]


def test_uniform_numbers_keep_both_bounds() -> None:
    values = filled(Filling(Fill.UNIFORM, 3, 5), 500)
    assert set(values.tolist()) == {3, 4, 5}


def test_a_permutation_holds_every_number_once() -> None:
    assert sorted(filled(Filling(Fill.PERMUTATION), 50).tolist()) == list(range(50))


def test_a_mask_has_as_many_trues_as_told() -> None:
    assert int(filled(Filling(Fill.MASK, 0, 30), 10, 10, dtype=torch.bool).sum()) == 30


def test_normal_deviates_have_their_scale() -> None:
    values = filled(Filling(Fill.NORMAL, scale=0.02), 20_000, dtype=torch.float32)
    assert float(values.std()) == pytest.approx(0.02, rel=0.05)


def test_positive_numbers_stay_between_their_bounds() -> None:
    values = filled(Filling(Fill.POSITIVE, 0.5, 1.0), 1000, dtype=torch.bfloat16)
    assert 0.5 <= float(values.min()) <= float(values.max()) <= 1.0


def test_lookups_are_reused_as_the_histogram_says() -> None:
    fractions = (0.5, 0.0, 0.5) + (0.0,) * 14
    rows = filled(Filling(Fill.LOOKUPS, 0, 99_999, reuse_fractions=fractions), 8000)
    assert 0 <= int(rows.min()) <= int(rows.max()) < 100_000
    found = np.array(count_reuse(rows.numpy()).row_fractions)
    assert found[0] == pytest.approx(0.5, abs=0.06)
    assert found[2] == pytest.approx(0.5, abs=0.06)


def test_an_expanded_tensor_is_filled_once() -> None:
    base = torch.full((3, 1), 77.0)
    fill_tensor(base.expand(3, 5), Filling(Fill.ZEROS), seed=0)
    fill_tensor(base.expand(3, 5), Filling(Fill.POSITIVE, 2.0, 3.0), seed=0)
    assert bool((base >= 2.0).all())


def test_recorded_values_are_those_of_the_file(tmp_path: Path) -> None:
    np.array([5, 4, 9], dtype=np.int64).tofile(tmp_path / "values.dat")
    filling = Filling(Fill.RECORDED, path=str(tmp_path / "values.dat"))
    assert filled(filling, 3).tolist() == [5, 4, 9]
    with pytest.raises(TraceError, match="not 4 whole numbers"):
        filled(filling, 4)
