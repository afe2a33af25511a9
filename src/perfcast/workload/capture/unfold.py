"""Writes a folded recording out: the stretch of a middle layer, once per layer of the run.

See ``fold`` for the idea. Terms: a *pass* is a forward or a backward of one micro-batch; within a pass
every captured unit owns one *stretch* of nodes; the *template* is the second unit (position 1) and its
*twin* the last but one (position 2), which must have recorded the same.

Micro-batches that accumulate gradients are written out in the same way: all of a step is one pass, whose
units are the micro-batches. The first makes the gradients, and the last frees what no other one follows.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from perfcast.core.graph import Node, Phase
from perfcast.core.tensor import Storage, Tensor
from perfcast.workload.capture.fold import NUM_CAPTURED, LayerRun, NotFoldableError
from perfcast.workload.capture.recording import Recording

_FIRST, _TEMPLATE, _TWIN, _LAST = range(4)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Nodes ``start`` to ``end`` of one captured unit in one pass."""

    pass_index: int
    position: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Reference:
    """A storage as seen from a layer: absolute, or what plays ``template``'s part ``offset`` units on."""

    template: int
    offset: int | None
    in_template: int
    in_twin: int


def unfold(recording: Recording, run: LayerRun) -> Recording:
    """The recording of the whole run.

    Raises:
        NotFoldableError: The middle units did not record the same.
    """
    return _Unfolder(recording, _find_stretches(recording.nodes, run), run.num_units, run).unfold()


def unfold_micro_batches(recording: Recording, num_micro_batches: int) -> Recording:
    """The recording of a step of so many micro-batches, from one of ``NUM_CAPTURED``.

    Raises:
        NotFoldableError: The middle ones did not record the same.
    """
    nodes = recording.nodes
    starts = [
        at
        for at, node in enumerate(nodes)
        if node.phase is Phase.FORWARD and (not at or nodes[at - 1].phase is not Phase.FORWARD)
    ]
    if len(starts) != NUM_CAPTURED:
        raise NotFoldableError("micro-batches cannot be told apart")
    ends = (*starts[1:], len(nodes))
    stretches = [_Stretch(0, at, *ends_of) for at, ends_of in enumerate(zip(starts, ends, strict=True))]
    return _Unfolder(recording, stretches, num_micro_batches).unfold()


class _Unfolder:
    """Holds what the steps of one unfolding share; used once.

    Attributes:
        run: Of layers, whose modules and weights are each unit's own; None: units run the same modules.
    """

    def __init__(
        self, recording: Recording, stretches: list[_Stretch], num_units: int, run: LayerRun | None = None
    ) -> None:
        self.recording, self.stretches, self.num_units, self.run = recording, stretches, num_units, run
        self.owner = self._owners()
        self.ordinals = self._ordinals()
        self.template_by_ordinal = self.ordinals[_TEMPLATE]
        self.twin_of = self._twins()
        self.template_of_twin = {twin: template for template, twin in self.twin_of.items()}
        self.node_at: dict[int, int] = {}
        self.copies: dict[tuple[int, int], int] = {}
        self.tensors: list[Tensor] = []
        self.tensor_indices: dict[tuple[int, int], int] = {}
        numbers: dict[object, int] = {}
        self.type_numbers = [numbers.setdefault(tensor.type, len(numbers)) for tensor in recording.tensors]
        self.nodes: list[Node] = []
        # (pass, unit) → new index of the first node of its stretch
        self.start_in_unit: dict[tuple[int, int], int] = {}

    def unfold(self) -> Recording:
        self._number_copies()
        self._emit_nodes()
        return Recording(
            self.nodes,
            self.recording.operations,
            self.tensors,
            self._emit_storages(),
            self._rename(self.recording.parameters),
            self._rename(self.recording.gradients),
        )

    # ---- who owns a storage -------------------------------------------------------------------

    def _owners(self) -> list[int | None]:
        """Position of the unit that creates a storage, or is alone in touching one that was there before."""
        nodes, storages, tensors = self.recording.nodes, self.recording.storages, self.recording.tensors
        position_of = self._position_of_nodes()
        touched: dict[int, set[int | None]] = defaultdict(set)
        for index, node in enumerate(nodes):
            for tensor in (*node.inputs, *node.outputs):
                touched[tensors[tensor].storage].add(position_of[index])
        owners: list[int | None] = []
        for index, storage in enumerate(storages):
            if storage.created_by >= 0:
                owners.append(position_of[storage.created_by])
            else:
                owners.append(next(iter(touched[index])) if len(touched[index]) == 1 else None)
        for index, node in enumerate(nodes):
            if position_of[index] is None:
                for tensor in (*node.inputs, *node.outputs):
                    if owners[tensors[tensor].storage] in (_TEMPLATE, _TWIN):
                        raise NotFoldableError("something outside the layers uses what one of them made")
        return owners

    def _position_of_nodes(self) -> list[int | None]:
        position_of: list[int | None] = [None] * len(self.recording.nodes)
        for stretch in self.stretches:
            position_of[stretch.start : stretch.end] = [stretch.position] * (stretch.end - stretch.start)
        return position_of

    def _ordinals(self) -> dict[int, list[int]]:
        """Storages of each position in the order in which its nodes first touch them."""
        seen: set[int] = set()
        ordinals: dict[int, list[int]] = {position: [] for position in range(4)}
        for stretch in self.stretches:
            for node in self.recording.nodes[stretch.start : stretch.end]:
                for tensor in (*node.inputs, *node.outputs):
                    storage = self.recording.tensors[tensor].storage
                    if storage not in seen and self.owner[storage] == stretch.position:
                        seen.add(storage)
                        ordinals[stretch.position].append(storage)
        return ordinals

    def _twins(self) -> dict[int, int]:
        template, twin = self.ordinals[_TEMPLATE], self.ordinals[_TWIN]
        if len(template) != len(twin):
            raise NotFoldableError("two middle layers use different numbers of storages")
        return dict(zip(template, twin, strict=True))

    # ---- copies -------------------------------------------------------------------------------

    def _number_copies(self) -> None:
        next_index = len(self.recording.storages)
        for unit in range(2, self.num_units - 2):
            for template in self.template_by_ordinal:
                self.copies[template, unit] = next_index
                next_index += 1

    def _storage_in_unit(self, template: int, unit: int) -> int:
        """The storage that plays ``template``'s part in a middle unit."""
        if unit == 1:
            return template
        if unit == self.num_units - 2:
            return self.twin_of[template]
        return self.copies[template, unit]

    def _reference(self, in_template: int, in_twin: int) -> _Reference:
        if in_template == in_twin:
            return _Reference(in_template, None, in_template, in_twin)
        owners = self.owner[in_template], self.owner[in_twin]
        if owners == (_TEMPLATE, _TWIN) and self.twin_of[in_template] == in_twin:
            return _Reference(in_template, 0, in_template, in_twin)
        if owners == (_FIRST, _TEMPLATE):
            return _Reference(in_twin, -1, in_template, in_twin)
        if owners == (_TWIN, _LAST):
            return _Reference(self.template_of_twin[in_template], +1, in_template, in_twin)
        raise NotFoldableError("two middle layers refer to different storages")

    def _resolve(self, reference: _Reference, unit: int) -> int:
        if reference.offset is None:
            return reference.template
        target = unit + reference.offset
        if target < 1:
            return reference.in_template
        if target > self.num_units - 2:
            return reference.in_twin
        return self._storage_in_unit(reference.template, target)

    # ---- nodes --------------------------------------------------------------------------------

    def _emit_nodes(self) -> None:
        position = 0
        by_pass: dict[int, dict[int, _Stretch]] = defaultdict(dict)
        for stretch in self.stretches:
            by_pass[stretch.pass_index][stretch.position] = stretch
        for pass_index in sorted(by_pass):
            stretches = by_pass[pass_index]
            middle_start = min(stretches[_TEMPLATE].start, stretches[_TWIN].start)
            middle_end = max(stretches[_TEMPLATE].end, stretches[_TWIN].end)
            self._emit_as_is(position, middle_start)
            is_forward = stretches[_TEMPLATE].start < stretches[_TWIN].start
            units = range(1, self.num_units - 1)
            self._emit_middle(stretches, list(units if is_forward else reversed(units)))
            position = middle_end
        self._emit_as_is(position, len(self.recording.nodes))

    def _emit_as_is(self, start: int, end: int) -> None:
        for index in range(start, end):
            node = self.recording.nodes[index]
            self.node_at[index] = len(self.nodes)
            inputs = tuple(self._tensor(t, self.recording.tensors[t].storage) for t in node.inputs)
            outputs = tuple(self._tensor(t, self.recording.tensors[t].storage) for t in node.outputs)
            self.nodes.append(node.elsewhere(node.module, inputs, outputs))

    def _emit_middle(self, stretches: dict[int, _Stretch], units: list[int]) -> None:
        template, twin = stretches[_TEMPLATE], stretches[_TWIN]
        length = template.end - template.start
        if length != twin.end - twin.start:
            raise NotFoldableError("two middle layers record different numbers of operations")
        rules = [self._rule(template.start + i, twin.start + i) for i in range(length)]
        touched: dict[tuple[int, _Reference], int] = {}  # in the order of first use, as tensors are numbered
        numbers = [
            [[touched.setdefault(one, len(touched)) for one in each] for each in (inputs, outputs)]
            for _, inputs, outputs in rules
        ]
        nodes = [node for node, _, _ in rules]
        for unit in units:
            self.start_in_unit[template.pass_index, unit] = len(self.nodes)
            modules = {name: self._module_in_unit(name, unit) for name in {node.module for node in nodes}}
            tensors = [self._tensor(tensor, self._resolve(r, unit)) for tensor, r in touched]
            self.nodes.extend(
                node.elsewhere(
                    modules[node.module],
                    tuple([tensors[number] for number in inputs]),
                    tuple([tensors[number] for number in outputs]),
                )
                for node, (inputs, outputs) in zip(nodes, numbers, strict=True)
            )
        for offset in range(length):
            self.node_at[template.start + offset] = self._node_in_unit(template.pass_index, 1, offset)
            last = self.num_units - 2
            self.node_at[twin.start + offset] = self._node_in_unit(template.pass_index, last, offset)

    def _node_in_unit(self, pass_index: int, unit: int, offset: int) -> int:
        """New index of a node by its place in the stretch of a unit."""
        return self.start_in_unit[pass_index, unit] + offset

    def _rule(
        self, in_template: int, in_twin: int
    ) -> tuple[Node, list[tuple[int, _Reference]], list[tuple[int, _Reference]]]:
        a, b = self.recording.nodes[in_template], self.recording.nodes[in_twin]
        if (a.operation, a.phase, a.recomputed, len(a.inputs), len(a.outputs)) != (
            b.operation,
            b.phase,
            b.recomputed,
            len(b.inputs),
            len(b.outputs),
        ):
            raise NotFoldableError(
                f"two middle layers record different operations in {a.module or 'the root'}"
            )
        tensors = self.recording.tensors

        def references(xs: tuple[int, ...], ys: tuple[int, ...]) -> list[tuple[int, _Reference]]:
            if any(tensors[x].type != tensors[y].type for x, y in zip(xs, ys, strict=True)):
                raise NotFoldableError("two middle layers use tensors of different shapes")
            return [
                (x, self._reference(tensors[x].storage, tensors[y].storage))
                for x, y in zip(xs, ys, strict=True)
            ]

        return a, references(a.inputs, b.inputs), references(a.outputs, b.outputs)

    def _tensor(self, original: int, storage: int) -> int:
        key = (storage, self.type_numbers[original])
        index = self.tensor_indices.get(key)
        if index is None:
            index = self.tensor_indices[key] = len(self.tensors)
            self.tensors.append(Tensor(self.recording.tensors[original].type, storage))
        return index

    def _module_in_unit(self, module: str, unit: int) -> str:
        """The same path with the layer index moved from the template's unit to ``unit``."""
        if self.run is None:
            return module
        prefix = f"{self.run.container}."
        if not module.startswith(prefix):
            return module
        index, dot, rest = module[len(prefix) :].partition(".")
        if not index.isdigit():
            return module
        return f"{prefix}{int(index) + (unit - 1) * self.run.period}{dot}{rest}"

    # ---- storages -----------------------------------------------------------------------------

    def _emit_storages(self) -> list[Storage]:
        old = self.recording.storages
        emitted = [
            storage.living(
                self.node_at.get(storage.created_by, -1),
                None if storage.freed_after is None else self.node_at.get(storage.freed_after, -1),
            )
            for storage in old
        ]
        emitted.extend(Storage(0, "", -1, None) for _ in self.copies)
        for template, twin in self.twin_of.items():
            free = self._free_rule(old[template].freed_after, old[twin].freed_after)
            created = self._creation(old[template].created_by)
            for unit in range(1, self.num_units - 1):
                index = self._storage_in_unit(template, unit)
                emitted[index] = old[template].living(
                    -1 if created is None else self._node_in_unit(created[0], unit, created[1]),
                    self._freed_in(free, unit, emitted[template], emitted[twin]),
                )
        return emitted

    def _creation(self, node: int) -> tuple[int, int] | None:
        """Pass and place of the node that creates a template's storage; None: it was there before."""
        if node < 0:
            return None
        stretch = self._stretch_of(node)
        assert stretch is not None
        return stretch.pass_index, node - stretch.start

    def _free_rule(self, in_template: int | None, in_twin: int | None) -> tuple[int, int, int] | None:
        """(unit offset, pass, place) of the node after which both are freed; None: the same node."""
        if in_template == in_twin or in_template is None or in_twin is None:
            if in_template != in_twin:
                raise NotFoldableError("two middle layers keep storages for different times")
            return None
        a, b = self._stretch_of(in_template), self._stretch_of(in_twin)
        if a is None or b is None or a.pass_index != b.pass_index:
            raise NotFoldableError("two middle layers free storages in different places")
        positions = (a.position, b.position)
        if positions == (_TEMPLATE, _TWIN) and in_template - a.start == in_twin - b.start:
            return 0, a.pass_index, in_template - a.start
        if positions == (_FIRST, _TEMPLATE):
            return -1, b.pass_index, in_twin - b.start
        if positions == (_TWIN, _LAST):
            return +1, a.pass_index, in_template - a.start
        raise NotFoldableError("two middle layers free storages in different places")

    def _freed_in(
        self, rule: tuple[int, int, int] | None, unit: int, template: Storage, twin: Storage
    ) -> int | None:
        if rule is None:
            return template.freed_after
        offset, pass_index, place = rule
        target = unit + offset
        if target < 1:
            return template.freed_after
        if target > self.num_units - 2:
            return twin.freed_after
        return self._node_in_unit(pass_index, target, place)

    def _stretch_of(self, node: int) -> _Stretch | None:
        return next((s for s in self.stretches if s.start <= node < s.end), None)

    def _rename(self, storages: dict[str, int]) -> dict[str, int]:
        """Names of the skipped layers' parameters added."""
        if self.run is None:
            return storages
        renamed: dict[str, int] = {}
        for name, storage in storages.items():
            renamed[name] = storage
            index = _layer_index(name, self.run.container)
            if index is not None and self.run.unit_of(index) == 1:
                if self.owner[storage] != _TEMPLATE:
                    raise NotFoldableError(f"{name} is not the layer's own")
                for unit in range(2, self.num_units - 2):
                    renamed[self._module_in_unit(name, unit)] = self.copies[storage, unit]
        return renamed


def _layer_index(path: str, container: str) -> int | None:
    if not path.startswith(f"{container}."):
        return None
    index = path[len(container) + 1 :].partition(".")[0]
    return int(index) if index.isdigit() else None


def _find_stretches(nodes: list[Node], run: LayerRun) -> list[_Stretch]:
    """Cut every pass into the stretches of its captured units, by where each unit's first node stands."""
    position_of_unit = {unit: position for position, unit in enumerate(run.captured_units)}
    first: dict[tuple[int, int], int] = {}
    last: dict[tuple[int, int], int] = {}
    pass_index, phase = 0, Phase.FORWARD
    for index, node in enumerate(nodes):
        if node.phase is not phase:
            pass_index, phase = pass_index + 1, node.phase
        layer = _layer_index(node.module, run.container)
        unit = None if layer is None else run.unit_of(layer)
        if unit is not None:
            key = (pass_index, position_of_unit[unit])
            first.setdefault(key, index)
            last[key] = index
    stretches: list[_Stretch] = []
    for current in sorted({p for p, _ in first}):
        order = sorted((p for q, p in first if q == current), key=lambda p: first[current, p])
        if order not in ([0, 1, 2, 3], [3, 2, 1, 0]):
            raise NotFoldableError("the layers do not run one after another")
        for place, position in enumerate(order):
            is_last = place == len(order) - 1
            end = last[current, position] + 1 if is_last else first[current, order[place + 1]]
            stretches.append(_Stretch(current, position, first[current, position], end))
    if not stretches:
        raise NotFoldableError("the layers did not run")
    return stretches
