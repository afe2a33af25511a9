"""What nvidia-smi topo -m prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfcast.errors import InputError
from perfcast.measure.topology_matrix import load_topology, mesh_of_topology, parse_topology


def table(rows: list[str], tail: str = "") -> str:
    """A made-up table in the program's form: header, rows of cells, one network card, affinity, legend."""
    names = [f"GPU{i}" for i in range(len(rows))]
    header = "\t" + "\t".join([*names, "NIC0", "CPU Affinity", "NUMA Affinity"])
    lines = [
        f"{name}\t " + "\t".join([*row.split(), "SYS", "0-15", "0"])
        for name, row in zip(names, rows, strict=True)
    ]
    return "\n".join([header, *lines, "NIC0\t" + "\t".join(["SYS"] * len(rows)) + "\t X", "", tail])


FOUR = ["X NV4 SYS SYS", "NV4 X SYS SYS", "SYS SYS X NV4", "SYS SYS NV4 X"]
LEGEND = "Legend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe as well as the SMP interconnect"


def test_pairs_of_nvlink_below_two_sockets_are_two_levels():
    mesh = mesh_of_topology(parse_topology(table(FOUR, LEGEND)))
    assert mesh.shape == (2, 2)
    assert [axis.name for axis in mesh.axes] == ["sys", "nvlink"]
    assert mesh.groups[-1] == ((0, 1), (2, 3))
    assert mesh.confidence == 1


def test_a_switch_that_joins_all_is_one_level():
    rows = [" ".join("X" if i == j else "NV18" for j in range(8)) for i in range(8)]
    mesh = mesh_of_topology(parse_topology(table(rows)))
    assert mesh.shape == (8,)
    assert mesh.axes[0].name == "nvlink"


def test_three_ways_to_meet_are_three_levels():
    def way(i: int, j: int) -> str:
        return "X" if i == j else "PIX" if i // 2 == j // 2 else "NODE" if i // 4 == j // 4 else "SYS"

    mesh = mesh_of_topology(parse_topology(table([" ".join(way(i, j) for j in range(8)) for i in range(8)])))
    assert mesh.shape == (2, 2, 2)
    assert [axis.name for axis in mesh.axes] == ["sys", "node", "pix"]


def test_a_hybrid_cube_mesh_is_two_quads_and_not_a_pure_hierarchy():
    def way(i: int, j: int) -> str:
        return "X" if i == j else "NV1" if i // 4 == j // 4 or i % 4 == j % 4 else "SYS"

    mesh = mesh_of_topology(parse_topology(table([" ".join(way(i, j) for j in range(8)) for i in range(8)])))
    assert mesh.shape == (2, 4)
    assert mesh.confidence == pytest.approx(24 / 28)
    assert mesh.doubts


def test_colours_of_a_terminal_are_passed_over():
    assert len(parse_topology(table(FOUR).replace("GPU0", "\x1b[4mGPU0\x1b[0m")).devices) == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no table"),
        ("nvidia-smi: command not found", "no table"),
        ("\n".join(table(FOUR).splitlines()[:3]), "row of GPU2 is missing"),
        (table(FOUR)[:60], "cut off|cells instead|no way to meet"),
        (table(["X NV4 SYS SYS", "NV4 X SYS SYS", "SYS SYS X NV4", "PIX SYS NV4 X"]), "contradict"),
        (table(["X FOO SYS SYS", *FOUR[1:]]), "'FOO' is no way to meet"),
    ],
)
def test_a_foreign_or_truncated_table_is_one_clear_error(text: str, message: str):
    with pytest.raises(InputError, match=message):
        parse_topology(text)


def test_a_file_that_is_not_there_is_one_clear_error(tmp_path: Path):
    with pytest.raises(InputError, match="cannot read"):
        load_topology(tmp_path / "none")
