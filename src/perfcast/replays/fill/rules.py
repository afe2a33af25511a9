"""What operators need of the values in their arguments: one rule per family, beside its reason.

A need names an argument, what has to be in it, and whether other values make the operator fail. Rules see a
call's arguments by name, and the shapes of its tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from perfcast.replays.program.program import Argument, Fill, Filling, ReplayCall, Slot, SlotUse
from perfcast.replays.program.schema_text import parse_schema
from perfcast.traces.events import NONE


@dataclass(frozen=True, slots=True)
class Need:
    """What one tensor argument has to hold. ``is_strict``: other values make the operator fail."""

    slot: int
    filling: Filling
    is_strict: bool = True


class View:
    """A call with its arguments by name."""

    def __init__(self, call: ReplayCall, slots: list[Slot]) -> None:
        self.call, self.slots = call, slots
        self._schema = parse_schema(call.schema)

    def value(self, *names: str) -> Argument:
        """The argument of the first of these names that the operator has."""
        for name in names:
            place = self._schema.place(name)
            if place is not None and place < len(self.call.arguments):
                return self.call.arguments[place]
        return None

    def slot(self, *names: str) -> int:
        """The slot that is an argument; ``NONE`` where no tensor stands there."""
        value = self.value(*names)
        return value.slot if isinstance(value, SlotUse) else NONE

    def list(self, *names: str) -> tuple[int, ...]:
        """The slots of a list of tensors, ``NONE`` for a gap in it."""
        value = self.value(*names)
        if not isinstance(value, tuple):
            return ()
        return tuple(item.slot if isinstance(item, SlotUse) else NONE for item in value)

    def number(self, name: str, default: int = 0) -> int:
        """A whole number among the arguments."""
        value = self.value(name)
        return value if type(value) is int else default

    def shape(self, slot: int) -> tuple[int, ...]:
        """The shape of a slot, () for none."""
        return self.slots[slot].shape if slot != NONE else ()

    def count(self, slot: int) -> int:
        """Elements of a slot."""
        return math.prod(self.shape(slot))

    def is_whole(self, slot: int) -> bool:
        """Whether a slot holds whole numbers."""
        return slot != NONE and self.slots[slot].is_whole

    def is_mask(self, slot: int) -> bool:
        """Whether a slot holds truth values, as places in another tensor."""
        return slot != NONE and self.slots[slot].dtype in ("bool", "uint8")


Rule = Callable[[View], Iterator[Need]]


def _below(view: View, slot: int, size: int, reason: str, kind: Fill = Fill.UNIFORM) -> Iterator[Need]:
    if view.is_whole(slot) and view.count(slot):
        yield Need(slot, Filling(kind, high=max(size - 1, 0), reason=reason))


def _positive(view: View, slot: int, reason: str, low: float = 0.5, high: float = 1.5) -> Iterator[Need]:
    if slot != NONE and view.slots[slot].is_floating:
        yield Need(slot, Filling(Fill.POSITIVE, low=low, high=high, reason=reason), is_strict=False)


def _dimension(view: View, slot: int, dimension: int) -> int:
    shape = view.shape(slot)
    return shape[dimension] if shape and -len(shape) <= dimension < len(shape) else 1


def _embedding(view: View) -> Iterator[Need]:
    yield from _below(
        view, view.slot("indices"), _dimension(view, view.slot("weight"), 0), "rows of a table", Fill.LOOKUPS
    )


def _embedding_backward(view: View) -> Iterator[Need]:
    rows = view.number("num_weights", 1)
    yield from _below(view, view.slot("indices"), rows, "rows of a table", Fill.LOOKUPS)


def _offsets(view: View, *, has_last: bool) -> Iterator[Need]:
    offsets, lookups = view.slot("offsets"), view.count(view.slot("indices"))
    if view.is_whole(offsets):
        filling = Filling(Fill.OFFSETS, high=lookups, has_last=has_last, reason="bags of lookups")
        yield Need(offsets, filling)


def _embedding_bag(view: View) -> Iterator[Need]:
    yield from _embedding(view)
    yield from _offsets(view, has_last=view.value("include_last_offset") is True)


def _batched_tables(view: View) -> Iterator[Need]:
    """FBGEMM's lookups: tables equally wide and long, one after the other (``rewrite/embedding_lookups``)."""
    ends, lookups = view.slot("D_offsets"), view.slot("indices")
    num_tables = max(view.count(ends) - 1, 1)
    pieces = [view.slot(name) for name in ("host_weights", "dev_weights", "uvm_weights")]
    num_elements = max(map(view.count, (*pieces, *view.list("weights"))), default=0)
    width = max(view.number("total_D") // num_tables, 1)
    rows = max(num_elements // width // num_tables, 1)
    for slot, high, has_last in (
        (ends, width * num_tables, True),
        (view.slot("hash_size_cumsum"), rows * num_tables, True),
        (view.slot("weights_offsets"), rows * width * num_tables, False),
        (view.slot("momentum1_offsets"), rows * width * num_tables, False),
    ):
        if view.is_whole(slot):
            yield Need(slot, Filling(Fill.OFFSETS, high=high, has_last=has_last, reason="equal tables"))
    yield from _below(view, lookups, rows, "rows of a table", Fill.LOOKUPS)
    yield from _offsets(view, has_last=True)


def _embedding_bag_backward(view: View) -> Iterator[Need]:
    yield from _embedding_backward(view)
    yield from _offsets(view, has_last=False)
    bags = _dimension(view, view.slot("grad"), 0)
    of_lookups = view.slot("offset2bag")
    if view.is_whole(of_lookups) and view.count(of_lookups):
        yield Need(of_lookups, Filling(Fill.OFFSETS, high=bags, reason="the bag of each lookup"))
    yield from _below(view, view.slot("maximum_indices"), view.number("num_weights", 1), "rows of a table")


def _targets(view: View) -> Iterator[Need]:
    scores, target = view.slot("self", "input"), view.slot("target")
    classes = _dimension(view, scores, 1 if len(view.shape(scores)) > 1 else 0)
    yield from _below(view, target, classes, "classes")


def _along_dimension(view: View) -> Iterator[Need]:
    size = _dimension(view, view.slot("self"), view.number("dim"))
    yield from _below(view, view.slot("index", "indices"), size, "places along a dimension")


def _flat_places(view: View) -> Iterator[Need]:
    yield from _below(view, view.slot("index"), view.count(view.slot("self")), "places in a tensor")


def _indexing(view: View) -> Iterator[Need]:
    """Whole numbers below the dimension they index; masks with as many trues as came out."""
    source = view.slot("self")
    values = view.slot("values")
    result = view.call.outputs[0] if view.call.outputs else NONE
    picked = view.shape(values) if values != NONE else view.shape(result)
    dimension = 0
    for slot in view.list("indices"):
        if view.is_mask(slot):
            size = picked[dimension] if dimension < len(picked) else view.count(slot) // 2
            trues = min(size, view.count(slot))
            yield Need(slot, Filling(Fill.MASK, high=trues, reason="as many as were picked"))
            dimension += len(view.shape(slot))
            continue
        yield from _below(view, slot, _dimension(view, source, dimension), "places along a dimension")
        dimension += 1


def _pooled_places(view: View) -> Iterator[Need]:
    shape = view.shape(view.slot("self"))
    yield from _below(view, view.slot("indices"), math.prod(shape[-2:]), "places of the largest")


def _unpooled_places(view: View) -> Iterator[Need]:
    sizes = view.value("output_size")
    wanted = sizes if isinstance(sizes, tuple) else ()
    size = math.prod(item for item in wanted if isinstance(item, int))
    yield from _below(view, view.slot("indices"), size, "places of the largest")


def _classes(view: View) -> Iterator[Need]:
    if view.number("num_classes", -1) > 0:
        yield from _below(view, view.slot("self"), view.number("num_classes", 1), "classes")


def _scattered(view: View) -> Iterator[Need]:
    """A mask with as many trues as there are elements to put there, or fewer."""
    mask = view.slot("mask")
    spread = max(view.count(view.slot("self")) // max(view.count(mask), 1), 1)
    trues = min(view.count(view.slot("source")) // spread, view.count(mask))
    if mask != NONE:
        yield Need(mask, Filling(Fill.MASK, high=trues, reason="as many as are put there"))


def _sequence_loss(view: View) -> Iterator[Need]:
    classes = _dimension(view, view.slot("log_probs"), 2)
    targets = view.slot("targets")
    if view.is_whole(targets):
        high = max(classes - 1, 0)
        yield Need(
            targets, Filling(Fill.UNIFORM, low=min(1, high), high=high, reason="classes but the blank")
        )


def _permutation(view: View) -> Iterator[Need]:
    permute = view.slot("permute")
    if view.is_whole(permute):
        yield Need(permute, Filling(Fill.PERMUTATION, reason="an order"))
    lengths = view.slot("lengths")
    each = view.count(view.slot("indices", "values")) // max(view.count(lengths), 1)
    if view.is_whole(lengths):
        yield Need(lengths, Filling(Fill.UNIFORM, low=each, high=each, reason="lengths of bags"))


def _statistics(view: View) -> Iterator[Need]:
    for name in ("running_var", "save_var", "save_invstd", "rstd", "invstd"):
        yield from _positive(view, view.slot(name), "a variance")


def _roots(view: View) -> Iterator[Need]:
    for slot in (view.slot("self"), *view.list("self")):
        yield from _positive(view, slot, "a root or a logarithm is taken of it")


def _power(view: View) -> Iterator[Need]:
    exponent = view.value("exponent")
    if isinstance(exponent, float) and not exponent.is_integer():
        yield from _positive(view, view.slot("self"), "a root is taken of it")


def _whole_divisors(view: View) -> Iterator[Need]:
    """Whole numbers by which others are divided without a fraction: none is 0."""
    if view.is_whole(view.slot("self")) or view.slot("self") == NONE:
        other = view.slot("other")
        if view.is_whole(other) and view.count(other):
            yield Need(other, Filling(Fill.UNIFORM, low=1, high=1, reason="it divides"))


def _divisors(view: View) -> Iterator[Need]:
    for slot in (view.slot("tensor2", "other"), *view.list("tensor2", "other")):
        yield from _positive(view, slot, "it divides")


def _probabilities(view: View) -> Iterator[Need]:
    for name in ("self", "target", "p"):
        yield from _positive(view, view.slot(name), "probabilities", 0.01, 0.99)


def _one_probability(view: View) -> Iterator[Need]:
    yield from _positive(view, view.slot("p", "self"), "probabilities", 0.01, 0.99)


def _fused_optimizer(view: View) -> Iterator[Need]:
    for slot in (*view.list("exp_avg_sqs"), *view.list("max_exp_avg_sqs"), *view.list("state_sums")):
        yield from _positive(view, slot, "a mean square")
    for slot in view.list("state_steps"):
        yield from _positive(view, slot, "a count of steps", 1.0, 2.0)


def _embedding_rows_of_self(view: View) -> Iterator[Need]:
    yield from _below(view, view.slot("indices"), _dimension(view, view.slot("self"), 0), "rows of a table")


def _given_probability(view: View) -> Iterator[Need]:
    yield from _positive(view, view.slot("p"), "probabilities", 0.01, 0.99)


_ALONG = ("gather", "scatter", "scatter_", "scatter_add", "scatter_add_", "scatter_reduce", "scatter_reduce_",
          "index_select", "index_add", "index_add_", "index_copy", "index_copy_", "index_fill", "index_fill_",
          "index_reduce", "index_reduce_", "take_along_dim", "_index_select_backward")  # fmt: skip
_NORMS = ("batch_norm", "native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm",
          "miopen_batch_norm", "_batch_norm_impl_index", "_batch_norm_impl_index_backward",
          "native_batch_norm_backward", "cudnn_batch_norm_backward", "miopen_batch_norm_backward",
          "native_layer_norm_backward", "native_group_norm_backward", "_batch_norm_with_update",
          "_native_batch_norm_legit_no_training", "batch_norm_backward", "_fused_rms_norm_backward",
          "batch_norm_elemt", "batch_norm_backward_reduce", "batch_norm_backward_elemt")  # fmt: skip
_CLASSIFYING = ("nll_loss", "nll_loss_nd", "nll_loss2d", "nll_loss_forward", "nll_loss2d_forward",
                "nll_loss_backward", "nll_loss2d_backward", "cross_entropy_loss",
                "multi_margin_loss")  # fmt: skip
_INDEXING = ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put")
_ROOTED = ("sqrt", "sqrt_", "rsqrt", "rsqrt_", "log", "log_", "log2", "log10", "_foreach_sqrt",
           "_foreach_sqrt_", "_foreach_log", "_foreach_rsqrt")  # fmt: skip
_WHOLE_DIVIDING = ("floor_divide", "floor_divide_", "remainder", "remainder_", "fmod", "fmod_")
_DIVIDING = ("addcdiv", "addcdiv_", "_foreach_addcdiv_", "_foreach_addcdiv", "div", "div_", "_foreach_div_",
             "_foreach_div")  # fmt: skip


@cache
def _rules() -> Mapping[str, Rule]:
    """Rules by the operators' names without their namespace."""
    rules: dict[str, Rule] = {
        "embedding": _embedding,
        "embedding_backward": _embedding_backward,
        "embedding_dense_backward": _embedding_backward,
        "embedding_renorm_": _embedding_rows_of_self,
        "embedding_bag": _embedding_bag,
        "_embedding_bag": _embedding_bag,
        "_embedding_bag_forward_only": _embedding_bag,
        "_embedding_bag_backward": _embedding_bag_backward,
        "_embedding_bag_dense_backward": _embedding_bag_backward,
        "take": _flat_places,
        "put_": _flat_places,
        "max_pool2d_with_indices_backward": _pooled_places,
        "max_unpool2d": _unpooled_places,
        "one_hot": _classes,
        "masked_scatter": _scattered,
        "masked_scatter_": _scattered,
        "_ctc_loss": _sequence_loss,
        "ctc_loss": _sequence_loss,
        "binary_cross_entropy": _probabilities,
        "binary_cross_entropy_backward": _probabilities,
        "bernoulli": _one_probability,
        "bernoulli_": _given_probability,
        "multinomial": _one_probability,
        "pow": _power,
    }
    rules |= dict.fromkeys(_CLASSIFYING, _targets)
    rules |= dict.fromkeys(_INDEXING, _indexing)
    rules |= dict.fromkeys(("_fused_adam_", "_fused_adamw_", "_fused_adagrad_"), _fused_optimizer)
    rules |= dict.fromkeys(("permute_2D_sparse_data", "permute_1D_sparse_data"), _permutation)
    rules |= dict.fromkeys(_ALONG, _along_dimension)
    rules |= dict.fromkeys(_NORMS, _statistics)
    rules |= dict.fromkeys(_ROOTED, _roots)
    rules |= dict.fromkeys(_DIVIDING, _divisors)
    rules |= dict.fromkeys(_WHOLE_DIVIDING, _whole_divisors)
    return rules


def needs_of(view: View) -> tuple[Need, ...]:
    """What a call needs of the values of its arguments."""
    name = view.call.operator.partition("::")[2]
    rule = _batched_tables if "_codegen_lookup_" in name else _rules().get(name)
    return tuple(rule(view)) if rule is not None else ()
