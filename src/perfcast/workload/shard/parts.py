"""The parts of a model that pipelines cut between: what is before its repeated blocks, each block, what is
behind them. Blocks are found by the paths of modules, such as ``transformer.h.12``."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from perfcast.core.graph import Graph, Phase
from perfcast.core.operation import MATRIX_KINDS

_MIN_BLOCKS = 2


@dataclass(frozen=True)
class Parts:
    """Which part each node is of: 0 before the blocks, 1 … num_blocks, num_blocks + 1 behind them.

    Attributes:
        container: Path of what holds the blocks; '' where nothing repeats.
        of_node: Of each node; -1 for the optimizer's.
        in_blocks: Of each node whether tensor parallelism cuts its products as those of a block; all of them
            where nothing repeats.
    """

    container: str
    num_blocks: int
    of_node: tuple[int, ...]
    in_blocks: tuple[bool, ...]

    @property
    def num_parts(self) -> int:
        """Blocks and both ends."""
        return self.num_blocks + 2


def find_parts(graph: Graph) -> Parts:
    """Split nodes by the program's order: nodes without a block of their own go with those around them."""
    container = _find_container(graph)
    blocks = [_block_of(node.module, container) for node in graph.nodes]
    numbers = {block: at for at, block in enumerate(sorted({b for b in blocks if b is not None}), start=1)}
    of_node = [-1 if node.phase is Phase.OPTIMIZER else 0 for node in graph.nodes]
    for phase in (Phase.FORWARD, Phase.BACKWARD):
        nodes = [i for i, node in enumerate(graph.nodes) if node.phase is phase and numbers]
        mine = [None if (block := blocks[i]) is None else numbers[block] for i in nodes]
        first, last = (0, len(numbers) + 1) if phase is Phase.FORWARD else (len(numbers) + 1, 0)
        for index, part in zip(nodes, _fill(mine, first, last), strict=True):
            of_node[index] = part
    return Parts(container, len(numbers), tuple(of_node), _find_inside(graph))


def _fill(parts: list[int | None], first: int, last: int) -> list[int]:
    """Parts of a phase: ``first`` before any block, ``last`` behind all, between them the present one."""
    final = max((at for at, part in enumerate(parts) if part is not None), default=-1)
    filled, present = [], first
    for at, part in enumerate(parts):
        present = present if part is None else part
        filled.append(last if at > final else present)
    return filled


def _find_inside(graph: Graph) -> tuple[bool, ...]:
    """For each node whether it is in a block of any list: numbered modules of several products each."""
    products: Counter[tuple[str, str]] = Counter()
    for node in graph.nodes:
        if node.phase is Phase.FORWARD and graph.operations[node.operation].kind in MATRIX_KINDS:
            products.update(_numbered(node.module))
    lists = Counter(path for (path, _), count in products.items() if count > 1)
    known = {path for path, count in lists.items() if count >= _MIN_BLOCKS}
    return tuple(not known or any(path in known for path, _ in _numbered(n.module)) for n in graph.nodes)


def _numbered(module: str) -> list[tuple[str, str]]:
    """(path of a list, number) for each number in a path."""
    words = module.split(".")
    return [(".".join(words[:at]), word) for at, word in enumerate(words) if at and word.isdigit()]


def _block_of(module: str, container: str) -> int | None:
    if not container or not module.startswith(f"{container}."):
        return None
    number = module[len(container) + 1 :].partition(".")[0]
    return int(number) if number.isdigit() else None


def _find_container(graph: Graph) -> str:
    """The path whose numbered children do most of the work; '' where none has two."""
    flops: Counter[str] = Counter()
    children: dict[str, set[str]] = {}
    for node in graph.nodes:
        if node.phase is not Phase.FORWARD:
            continue
        for path, number in _numbered(node.module)[:1]:
            flops[path] += graph.operations[node.operation].flops
            children.setdefault(path, set()).add(number)
    found = [path for path in flops if len(children[path]) >= _MIN_BLOCKS]
    return max(found, key=lambda path: flops[path], default="")
