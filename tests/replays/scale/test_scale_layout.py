from __future__ import annotations

from dataclasses import replace

from perfcast.replays.program.program import Slot
from perfcast.replays.scale.layout import Resized, own_memory, window

BASE = Slot(0, "float32", 0, (8, 3, 4), (12, 4, 1), "cpu")


def test_a_window_lies_at_the_same_share_of_its_memory():
    base = Resized(BASE, own_memory(BASE, (16, 3, 4)))
    half = replace(BASE, shape=(4, 3, 4), offset_elements=48)
    assert window(half, (8, 3, 4), base).offset_elements == 96
    column = replace(BASE, shape=(8, 4), strides=(12, 1), offset_elements=4)
    assert window(column, (16, 4), base) == replace(column, shape=(16, 4))


def test_strides_count_as_many_rows_as_before():
    turned = replace(BASE, shape=(3, 8, 4), strides=(32, 4, 1))
    base = Resized(turned, own_memory(turned, (3, 16, 4)))
    assert base.new.strides == (64, 4, 1)
    swapped = replace(turned, shape=(8, 3, 4), strides=(4, 32, 1))
    assert window(swapped, (16, 3, 4), base).strides == (4, 64, 1)
