"""Files to begin with."""

import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.catalogs.devices import load_device
from perfcast.catalogs.templates import template_of
from perfcast.errors import InputError


@pytest.mark.parametrize("name", ["my-device", "x1", "b300.2"])
def test_the_file_of_a_device_describes_one_of_that_name(name, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(template_of("device", name), encoding="utf-8")
    assert load_device(str(path)).name == name


def test_the_file_of_a_cluster_has_any_number_of_devices(tmp_path):
    path = tmp_path / "ours.toml"
    path.write_text(template_of("cluster", "ours"), encoding="utf-8")
    assert [level.size for level in load_cluster(f"{path}:32").levels] == [8, 4]


def test_every_key_that_a_device_may_have_stands_in_its_file():
    from perfcast.catalogs.devices import _KEYS

    text = template_of("device", "x")
    assert all(f"{key} =" in text or f".{key}]" in text for key in set(_KEYS) - {"neusight", "status"})


def test_a_name_that_would_be_spelled_otherwise_is_refused():
    with pytest.raises(InputError, match="my-device"):
        template_of("device", "My GPU")
