from __future__ import annotations

import pytest

from perfcast.core.training import ATTENTION, DTYPES, FRAMEWORKS, OPTIMIZERS, Training
from perfcast.errors import UnknownNameError


@pytest.mark.parametrize(
    ("field", "known"),
    [("dtype", DTYPES), ("optimizer", OPTIMIZERS), ("framework", FRAMEWORKS), ("attention", ATTENTION)],
)
def test_every_known_name_is_taken_and_others_are_refused_with_those_known(
    field: str, known: tuple[str, ...]
):
    assert [getattr(Training(**{field: name}), field) for name in known] == list(known)
    with pytest.raises(UnknownNameError) as error:
        Training(**{field: "nothing"})
    assert all(name in str(error.value) for name in known)


def test_a_close_name_is_suggested():
    with pytest.raises(UnknownNameError) as error:
        Training(framework="megatro")
    assert "megatron" in error.value.close_names
