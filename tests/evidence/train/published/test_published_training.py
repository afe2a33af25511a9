"""Training each published predictor on small made-up tables, and loading it again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from perfcast.catalogs.devices import load_device
from perfcast.core.kernel import KernelFamily, KernelTable, build_kernel_table
from perfcast.errors import InputError
from perfcast.evidence.train.published import habitat as habitat_training
from perfcast.evidence.train.published import neusight as neusight_training
from perfcast.evidence.train.published.li2020 import table_of
from perfcast.evidence.train.published.registry import load_trainer
from perfcast.evidence.train.published.request import TrainingRequest
from perfcast.evidence.train.published.study_rows import (
    CONVOLUTION_SIZES,
    PRODUCT_SIZES,
    VECTOR_SIZES,
    read_study_rows,
    select_devices,
)
from perfcast.published.habitat.predictor import Habitat, load_habitat
from perfcast.published.li2020 import Li2020, load_li2020
from perfcast.published.nets import larger as larger_predictors
from perfcast.published.registry import PREDICTORS, load_predictor
from published.study_tables import BYTES_PER_SECOND, DEVICES, FLOPS_PER_SECOND, write_study_tables

TRAINED = [name for name, entry in PREDICTORS.items() if entry.is_trained]
V100, P100, T4 = (load_device(name) for name in DEVICES)
ONE = np.zeros(1, dtype=np.int64)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_study_tables(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module", autouse=True)
def narrow_nets() -> Iterator[None]:
    """Nets of width 16 learn as well what these tests ask, in less time."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (neusight_training, habitat_training, larger_predictors):
            patch.setattr(module, "WIDTH", 16)
        yield


@pytest.fixture(scope="module")
def trained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every predictor after one epoch, each in a folder of its name; the T4 is left out."""
    folder = tmp_path_factory.mktemp("predictors")
    for name in TRAINED:
        train(name, data, folder / name, left_out=("t4",))
    return folder


def train(name: str, data: Path, folder: Path, **changes: object) -> dict:
    options = {"seed": 0, "vendor": "nvidia", "left_out": (), "num_epochs": 1, **changes}
    return load_trainer(name)(TrainingRequest(data=data, folder=folder, **options))


def bmm(batch: float = 8) -> KernelTable:
    return build_kernel_table(
        KernelFamily.PRODUCT, 1, operation="bmm", dtype="fp32", batch=batch, m=256, n=256, k=256, layout="nn",
        framework="pytorch",
    )  # fmt: skip


def gelu(num_rows: float, row_length: float) -> KernelTable:
    size = np.array([num_rows * row_length * 4])
    words = {name: np.array([word], dtype=object) for name, word in
             (("operation", "gelu"), ("dtype", "fp32"), ("framework", "pytorch"))}  # fmt: skip
    sizes = {"num_rows": np.array([num_rows]), "row_length": np.array([row_length])}
    return KernelTable(KernelFamily.ROWS, {**sizes, "read_bytes": size, "written_bytes": size, **words})


#: The study measures every device that it forecasts: without a net of a device's own there is no answer.
KNOWN_DEVICES_ONLY = frozenset({"lin2024"})


@pytest.mark.parametrize("name", PREDICTORS)
def test_every_predictor_prices_a_batched_product_on_known_and_unknown_devices(name: str, trained: Path):
    predictor = load_predictor(name, trained / name)
    assert predictor.name == name
    assert np.isfinite(predictor.predict(bmm(), (V100, T4), ONE)).all()
    assert np.isfinite(predictor.predict(bmm(), (T4,), ONE)).all() == (name not in KNOWN_DEVICES_ONLY)


@pytest.mark.parametrize("name", PREDICTORS)
def test_every_predictor_answers_an_empty_table_with_nothing(name: str, trained: Path):
    empty = np.zeros(0, dtype=np.int64)
    assert len(load_predictor(name, trained / name).predict(bmm().take(empty), (V100,), empty)) == 0


@pytest.mark.parametrize("name", ["neusight", "mlp8"])
def test_equal_seeds_give_equal_predictions(name: str, data: Path, trained: Path, tmp_path: Path):
    record = train(name, data, tmp_path, left_out=("t4",))
    again, before = (load_predictor(name, folder) for folder in (tmp_path, trained / name))
    assert again.predict(bmm(), (T4,), ONE) == before.predict(bmm(), (T4,), ONE)
    assert record["left_out"] == ["t4"]
    assert record["devices"] == ["p100-pcie", "v100-pcie-32gb"]


def test_another_seed_in_the_same_folder_is_refused(data: Path, tmp_path: Path):
    train("mlp8", data, tmp_path)
    with pytest.raises(InputError, match="--output"):
        train("mlp8", data, tmp_path, seed=1)


@pytest.mark.parametrize("name", TRAINED)
def test_an_untrained_predictor_names_the_command_that_trains_it(name: str, tmp_path: Path):
    with pytest.raises(InputError, match=f"perfcast train {name} --data DIR"):
        load_predictor(name, tmp_path)


@pytest.mark.parametrize("name", TRAINED)
def test_a_folder_without_tables_is_an_error_that_names_the_table(name: str, tmp_path: Path):
    with pytest.raises(InputError, match=r"parquet.*--data"):
        train(name, tmp_path, tmp_path / "out")


def test_leaving_out_every_device_is_an_error(data: Path, tmp_path: Path):
    with pytest.raises(InputError, match="no measurement"):
        train("li2020", data, tmp_path, left_out=("t4", "v100-pcie-32gb", "p100-pcie"))


# ---- rows -------------------------------------------------------------------------------------


def test_the_study_reader_keeps_the_order_of_sizes_and_catalog_names(data: Path):
    rows = read_study_rows(data, "matmul_train", PRODUCT_SIZES)
    kernels = table_of(rows, 4)
    flops = 2 * np.prod([kernels.size(name) for name in ("batch", "m", "n", "k")], axis=0)
    rate = {load_device(name).name: value for name, value in FLOPS_PER_SECOND.items()}
    assert rows.seconds == pytest.approx(flops / [rate[name] for name in rows.device_names()])
    assert len(select_devices(rows, "nvidia", ("t4",))) == len(rows) * 2 // 3


def test_a_table_without_a_column_is_an_error_that_names_it(data: Path):
    with pytest.raises(InputError, match="Input_Channel"):
        read_study_rows(data, "matmul_train", CONVOLUTION_SIZES)


# ---- Li et al. --------------------------------------------------------------------------------


@pytest.fixture
def lines(trained: Path) -> Li2020:
    return load_li2020(trained / "li2020")


def test_a_device_with_a_line_is_priced_by_it(lines: Li2020):
    seconds = lines.predict(bmm(), (V100,), ONE)
    assert seconds[0] == pytest.approx(2 * 8 * 256**3 / FLOPS_PER_SECOND[DEVICES[0]])


def test_a_device_without_one_gets_the_mean_efficiency_of_the_others(lines: Li2020):
    efficiency = [
        BYTES_PER_SECOND[name] / device.memory_bytes_per_second for name, device in
        zip(DEVICES[:2], (V100, P100), strict=True)
    ]  # fmt: skip
    expected = 9000 * 1000 * 8 / T4.memory_bytes_per_second / np.prod(efficiency) ** 0.5
    assert lines.predict(gelu(9000, 1000), (T4,), ONE)[0] == pytest.approx(expected, rel=1e-3)


def test_an_operator_that_was_not_measured_has_no_line(lines: Li2020):
    attention = gelu(8, 8)
    attention.columns["operation"][0] = "rms_norm"
    assert np.isnan(lines.predict(attention, (V100,), ONE)).all()


# ---- Habitat ----------------------------------------------------------------------------------


@pytest.fixture
def habitat(trained: Path) -> Habitat:
    return load_habitat(trained / "habitat")


def test_row_kernels_are_scaled_from_a_v100_and_on_a_v100_from_a_p100(habitat: Habitat):
    measured = habitat.measured
    assert [measured.source_for(name) for name in ("t4", "v100-pcie-32gb")] == ["v100-pcie-32gb", "p100-pcie"]
    one_byte = {d.name: BYTES_PER_SECOND[name] for name, d in zip(DEVICES, (V100, P100, T4), strict=True)}
    num_bytes = 9000 * 1000 * 8
    for source, target in ((V100, T4), (P100, V100)):
        seconds = habitat.predict(gelu(9000, 1000), (target,), ONE)[0]
        ratio = source.memory_bytes_per_second / target.memory_bytes_per_second
        assert seconds == pytest.approx(num_bytes / one_byte[source.name] * ratio, rel=0.05)


def test_a_kernel_measured_nowhere_has_no_model(habitat: Habitat):
    kernels = gelu(9000, 1000)
    kernels.columns["operation"][0] = "tanh"
    assert np.isnan(habitat.predict(kernels, (T4,), ONE)).all()


def test_the_nearest_sizes_stand_for_sizes_never_measured(habitat: Habitat, data: Path):
    rows = read_study_rows(data, "vector_train", VECTOR_SIZES)
    first = rows.take(np.flatnonzero((rows.operation == "ln") & (rows.device_names() == V100.name))[:1])
    num_bytes = 8 * first.shape.prod(axis=1)
    for factor in (1.0, 1.001):
        seconds = habitat.measured.nearest_seconds(V100.name, "ln", first.shape * factor, num_bytes)
        assert seconds == pytest.approx(first.seconds)
