"""The catalog from Python."""

from __future__ import annotations

import pytest

from perfcast.errors import UnknownNameError
from perfcast.verbs import catalog as lists


def test_all_are_listed_as_plain_rows():
    assert {"h100-sxm", "b200"} <= {row["name"] for row in lists.devices()}
    assert "gpt2" in {row["name"] for row in lists.models()}
    assert "dgx-h100" in {row["name"] for row in lists.clusters()}


def test_one_is_found_as_options_take_it_and_an_unknown_one_lists_close_names():
    assert [row["name"] for row in lists.devices("h100-sxm")] == ["h100-sxm"]
    with pytest.raises(UnknownNameError, match=r"Did you mean .*h100-sxm"):
        lists.devices("h100-sx")
