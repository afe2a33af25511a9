"""Files of prices, good and bad."""

from pathlib import Path

import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.errors import InputError
from perfcast.searches.prices_file import read_prices


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


FORMS = {
    "p.toml": '[dollars_per_device_hour]\n"dgx-h100" = 2.5\n"h100-sxm" = 2\n',
    "p.json": '{"dollars_per_device_hour": {"dgx-h100": 2.5, "h100-sxm": 2}}',
    "p.csv": "name,dollars_per_device_hour\ndgx-h100,2.5\nh100-sxm,2\n",
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_says_the_same(tmp_path: Path, name: str):
    prices = read_prices(written(tmp_path, name, FORMS[name]))
    assert prices.dollars_per_device_hour == {"dgx-h100": 2.5, "h100-sxm": 2.0}


def test_the_closest_name_wins_size_before_cluster_before_device(tmp_path: Path):
    text = '[dollars_per_device_hour]\n"dgx-h100:64" = 3\n"dgx-h100" = 2.5\n"h100-sxm" = 2\n'
    prices = read_prices(written(tmp_path, "p.toml", text))
    assert prices.of_cluster(load_cluster("dgx-h100:64")) == 3
    assert prices.of_cluster(load_cluster("dgx-h100:8")) == 2.5
    only_device = read_prices(written(tmp_path, "q.toml", "[dollars_per_device_hour]\nh100-sxm = 2\n"))
    assert only_device.of_cluster(load_cluster("dgx-h100:8")) == 2


def test_a_cluster_without_a_price_is_refused_by_name_with_what_there_is(tmp_path: Path):
    prices = read_prices(written(tmp_path, "p.toml", FORMS["p.toml"]))
    with pytest.raises(InputError, match=r"no price of cluster 'mi300x' .* it has dgx-h100, h100-sxm"):
        prices.of_cluster(load_cluster("mi300x:8"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("p.toml", "nan"), ("p.toml", "-1"), ("p.toml", "inf"), ("p.toml", "true"), ("p.toml", "'cheap'"),
        ("p.json", "NaN"), ("p.json", "-0.5"), ("p.json", "null"), ("p.json", "[1]"),
    ],
)  # fmt: skip
def test_what_is_no_price_is_refused_with_file_and_name(tmp_path: Path, name: str, value: str):
    text = {
        "p.toml": f"[dollars_per_device_hour]\ndgx-h100 = {value}\n",
        "p.json": f'{{"dollars_per_device_hour": {{"dgx-h100": {value}}}}}',
    }[name]
    with pytest.raises(
        InputError, match=rf"{name}: .*dgx-h100( = .*: a price is a finite number|: .* is no finite number)"
    ):
        read_prices(written(tmp_path, name, text))


@pytest.mark.parametrize("value", ["nan", "", "-2", "two"])
def test_what_is_no_price_in_a_column_is_refused_too(tmp_path: Path, value: str):
    path = written(tmp_path, "p.csv", f"name,dollars_per_device_hour\ndgx-h100,{value}\n")
    with pytest.raises(InputError, match=r"dgx-h100 = .*: a price is a finite number"):
        read_prices(path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("p.toml", "dgx-h100 = 2\n", "no table 'dollars_per_device_hour'"),
        ("p.toml", "[dollars_per_device_hour]\n", "holds no prices"),
        ("p.toml", "= 2", "not valid TOML"),
        ("p.json", "[2]", "no table"),
        ("p.json", "{", "not valid JSON"),
        ("p.csv", "cluster,price\ndgx-h100,2\n", "lacks the columns"),
        ("p.csv", "name,dollars_per_device_hour\na,1\na,2\n", "'a' has two prices"),
    ],
)
def test_files_of_another_form_say_what_is_expected(tmp_path: Path, name: str, text: str, message: str):
    with pytest.raises(InputError, match=message):
        read_prices(written(tmp_path, name, text))


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(InputError, match=r"cannot read the prices .*gone\.toml"):
        read_prices(tmp_path / "gone.toml")
