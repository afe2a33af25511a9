from __future__ import annotations

import pytest

from perfcast.catalogs.figures import collect_aliases, data_files, normalize, resolve_name
from perfcast.errors import CatalogError, UnknownNameError
from perfcast.figures import Figure


def test_a_figure_keeps_what_is_written_and_converts_on_demand():
    figure = Figure(2039.0, "GB/s", "a data sheet")
    assert figure.value == 2039.0
    assert figure.si_value == 2039e9


def test_names_are_compared_in_one_spelling():
    assert normalize(" NVIDIA_A100 80GB ") == "nvidia-a100-80gb"


def test_an_alias_of_two_names_is_a_catalog_error_that_names_both():
    with pytest.raises(CatalogError, match="alias 'big' of 'b' already stands for another entry"):
        collect_aliases({"a": ["big"], "b": ["Big"]})


def test_an_alias_that_is_another_entrys_name_is_a_catalog_error():
    with pytest.raises(CatalogError, match="alias 'b' of 'a'"):
        collect_aliases({"a": ["b"], "b": []})


def test_an_alias_may_repeat_its_own_name_in_another_spelling():
    assert collect_aliases({"a-1": ["A 1", "first"]}) == {"a-1": "a-1", "first": "a-1"}


def test_a_name_goes_before_an_alias():
    assert resolve_name("device", "T4", ["t4"], {"tesla-t4": "t4"}, "") == "t4"
    assert resolve_name("device", "Tesla T4", ["t4"], {"tesla-t4": "t4"}, "") == "t4"


def test_a_name_that_nothing_resembles_still_says_where_to_look():
    with pytest.raises(UnknownNameError, match=r"unknown device 'zzz'\. Look there\."):
        resolve_name("device", "zzz", ["t4"], {}, "Look there.")


@pytest.mark.parametrize("folder", ["devices", "models", "launch"])
def test_the_packages_own_files_are_found_in_a_fixed_order(folder: str):
    paths = data_files(folder)
    assert paths
    assert paths == sorted(paths)
