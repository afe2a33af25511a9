"""What follows the batch, in calls by hand: names stand for tensors, each with its recorded shape."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfcast.traces.scaling.recorded.calls import Argument, ScalingCall, TensorArgument
from perfcast.traces.scaling.scaling import Scaling, scale

Shape = tuple[int, ...]


class Script:
    """Calls in the order of their making; a tensor is named by its text."""

    def __init__(self) -> None:
        self.calls: list[ScalingCall] = []

    def tensor(self, name: str, shape: Shape, dtype: str = "float32") -> TensorArgument:
        return TensorArgument(name, name, dtype, shape)

    def call(self, operator: str, *arguments: Argument, out: TensorArgument | None = None) -> int:
        name, _, overload = operator.partition(".")
        place = len(self.calls)
        outputs = () if out is None else (out,)
        is_operator = name.startswith("aten::")
        self.calls.append(
            ScalingCall(
                place, name, overload or "default", arguments, outputs, place, is_operator=is_operator
            )
        )
        return place

    def data(self, name: str, shape: Shape) -> TensorArgument:
        made = self.tensor(name, shape)
        self.call("aten::randn", shape, 6, None, None, None, out=made)
        return made

    def numbers(self, name: str, shape: Shape) -> TensorArgument:
        made = self.tensor(name, shape, "int64")
        self.call("aten::randint", 9, shape, 4, None, None, None, out=made)
        return made

    def linear(self, x: TensorArgument, width: int, name: str) -> TensorArgument:
        weight = self.tensor(f"w{name}", (width, x.shape[-1]))
        made = self.tensor(name, (*x.shape[:-1], width))
        self.call("aten::linear", x, weight, None, out=made)
        return made

    def scaled(self, recorded: int = 16, times: int = 4) -> Scaling:
        return scale(self.calls, recorded, times * recorded)


def last_shapes(script: Script) -> tuple[Shape, ...]:
    return script.scaled().shapes(len(script.calls) - 1)


def test_a_hidden_size_that_is_the_batch_stays():
    script = Script()
    hidden = script.linear(script.data("x", (16, 16)), 16, "h")
    script.call("aten::relu", hidden, out=script.tensor("r", (16, 16)))
    assert last_shapes(script) == ((64, 16),)


def test_edges_follow_the_nodes_and_are_said_to_be_assumed():
    script = Script()
    nodes, edges = script.data("x", (16, 32)), script.numbers("e", (64,))
    picked = script.tensor("p", (64, 32))
    script.call("aten::index.Tensor", nodes, (edges,), out=picked)
    script.call("aten::relu", picked, out=script.tensor("r", (64, 32)))
    scaling = script.scaled()
    place = len(script.calls) - 1
    assert scaling.shapes(place) == ((256, 32),)
    assert scaling.shapes(place, "unscaled") == ((64, 32),)
    (variable,) = scaling.assumed(place)
    assert scaling.origin(variable).size == 64
    assert "randint" in scaling.origin(variable).what


def test_tokens_of_an_expert_keep_their_share():
    script = Script()
    tokens = script.linear(script.data("x", (16, 24, 32)), 64, "h")
    flat = script.tensor("f", (384, 64))
    script.call("aten::view", tokens, (384, 64), out=flat)
    mask = script.tensor("m", (384, 2), "bool")
    chosen = script.tensor("c", (384, 2), "int64")
    script.call("aten::topk", script.linear(flat, 4, "g"), 2, -1, True, True, out=None)
    script.calls[-1] = ScalingCall(
        script.calls[-1].place, "aten::topk", "default", script.calls[-1].arguments,
        (script.tensor("v", (384, 2)), chosen), script.calls[-1].place,
    )  # fmt: skip
    script.call("aten::eq.Scalar", chosen, 1, out=mask)
    found = script.tensor("n", (150, 2), "int64")
    script.call("aten::nonzero", mask, out=found)
    rows = script.tensor("r", (150,), "int64")
    script.call("aten::select.int", found, 1, 0, out=rows)
    own = script.tensor("o", (150, 64))
    script.call("aten::index.Tensor", flat, (rows,), out=own)
    script.linear(own, 128, "expert")
    assert last_shapes(script) == ((600, 64), (128, 64))


def test_similarities_of_all_pairs_grow_with_the_square():
    script = Script()
    first = script.linear(script.data("x", (16, 8)), 32, "a")
    second = script.linear(script.data("y", (16, 8)), 32, "b")
    turned, pairs = script.tensor("t", (32, 16)), script.tensor("p", (16, 16))
    script.call("aten::t", second, out=turned)
    script.call("aten::mm", first, turned, out=pairs)
    script.call("aten::softmax.int", pairs, 1, None, out=script.tensor("s", (16, 16)))
    assert last_shapes(script) == ((64, 64),)


def test_a_sum_of_what_stays_and_what_follows():
    script = Script()
    queue, keys = script.tensor("q", (100, 32)), script.linear(script.data("x", (16, 8)), 32, "k")
    script.call("aten::mm", queue, script.tensor("w", (32, 32)), out=script.tensor("fixed", (100, 32)))
    both = script.tensor("both", (116, 32))
    script.call("aten::cat", (script.tensor("fixed", (100, 32)), keys), 0, out=both)
    script.call("aten::relu", both, out=script.tensor("r", (116, 32)))
    scaling = script.scaled()
    assert scaling.shapes(len(script.calls) - 1, "unscaled") == ((164, 32),)


def test_what_is_flattened_comes_apart_again():
    script = Script()
    x = script.linear(script.data("x", (16, 8, 32)), 64, "h")
    heads = script.tensor("heads", (16, 8, 4, 16))
    script.call("aten::view", x, (16, 8, 4, 16), out=heads)
    turned = script.tensor("turned", (16, 4, 8, 16))
    script.call("aten::transpose.int", heads, 1, 2, out=turned)
    flat = script.tensor("flat", (64, 8, 16))
    script.call("aten::reshape", turned, (64, 8, 16), out=flat)
    back = script.tensor("back", (16, 4, 128))
    script.call("aten::reshape", flat, (16, 4, 128), out=back)
    script.call("aten::relu", back, out=script.tensor("r", (16, 4, 128)))
    assert last_shapes(script) == ((64, 4, 128),)


def test_a_gradient_that_is_accumulated_has_the_size_of_a_parameter():
    script = Script()
    x, grad = script.data("x", (16, 16)), script.data("g", (16, 48))
    turned, made = script.tensor("t", (48, 16)), script.tensor("m", (48, 16))
    script.call("aten::t", grad, out=turned)
    script.call("aten::mm", turned, x, out=made)
    script.call("torch::autograd::AccumulateGrad", made)
    assert last_shapes(script) == ((48, 16),)


@pytest.mark.parametrize("times", [2, 4])
def test_results_that_cannot_be_followed_are_said(times: int):
    script = Script()
    x = script.linear(script.data("x", (16, 8)), 32, "h")
    made = script.tensor("made", (16, 32))
    place = script.call("aten::_no_such_operator", x, out=made)
    script.call("aten::relu", made, out=script.tensor("r", (16, 32)))
    scaling = script.scaled(times=times)
    assert place in scaling.followed.reasons
    (variable,) = scaling.assumed(len(script.calls) - 1)
    assert "_no_such_operator" in scaling.origin(variable).what
    assert scaling.shapes(len(script.calls) - 1, "scaled") == ((16 * times, 32),)


def test_of_literal_sizes_beside_a_tensor_only_the_batch_follows():
    script = Script()
    x = script.linear(script.data("x", (16, 8)), 192, "h")
    best, places = script.tensor("v", (16,)), script.tensor("i", (16,), "int64")
    script.call("aten::max.dim", x, 1, False)
    script.calls[-1] = replace(script.calls[-1], outputs=(best, places))
    made = script.tensor("g", (16, 192))
    script.call("aten::value_selecting_reduction_backward", best, 1, places, (16, 192), False, out=made)
    script.call("aten::relu", made, out=script.tensor("r", (16, 192)))
    assert last_shapes(script) == ((64, 192),)


def adjacency(script: Script, edges: int = 64) -> TensorArgument:
    """A sparse matrix of a graph's 16 nodes, as ``torch.sparse_coo_tensor`` records it."""
    places = script.numbers("places", (2, edges))
    values = script.tensor("values", (edges,))
    script.call("aten::ones", (edges,), 6, None, None, None, out=values)
    made = script.tensor("sparse", (16, 16))
    script.call(
        "aten::_sparse_coo_tensor_with_dims_and_tensors", 2, 0, (16, 16), places, values, 6, 1, None, False,
        None, out=made,
    )  # fmt: skip
    return made


def test_a_sparse_matrix_of_a_graph_follows_its_nodes():
    script = Script()
    features = script.linear(script.data("x", (16, 8)), 32, "h")
    merged = script.tensor("merged", (16, 16))
    script.call("aten::coalesce", adjacency(script), out=merged)
    summed = script.tensor("summed", (16, 32))
    script.call("aten::_sparse_mm", merged, features, out=summed)
    script.call("aten::_values", merged, out=script.tensor("told", (64,)))
    script.call("aten::relu", script.tensor("told", (64,)), out=script.tensor("r", (64,)))
    place = script.call("aten::_sparse_mm", merged, summed, out=script.tensor("again", (16, 32)))
    scaling = script.scaled()
    assert scaling.shapes(place) == ((64, 64), (64, 32))
    assert scaling.shapes(place - 1) == ((256,),)
    assert not scaling.followed.reasons


def test_rows_of_a_compressed_matrix_are_one_less_than_its_pointers():
    script = Script()
    pointers, columns = script.tensor("p", (17,), "int64"), script.tensor("c", (64,), "int64")
    matrix = script.tensor("sparse", (16, 16))
    values = script.tensor("values", (64,))
    script.call("aten::ones", (64,), 6, None, None, None, out=values)
    script.call(
        "aten::_sparse_csr_tensor_unsafe", pointers, columns, values, (16, 16), 6, 2, None, False, out=matrix
    )
    features = script.linear(script.data("x", (16, 8)), 32, "h")
    summed = script.tensor("summed", (16, 32))
    place = script.call("aten::_sparse_mm", matrix, features, out=summed)
    script.call("aten::relu", summed, out=script.tensor("r", (16, 32)))
    scaling = script.scaled()
    assert scaling.shapes(place) == ((64, 64), (64, 32))
    assert scaling.shapes(place + 1) == ((64, 32),)


def test_a_size_that_no_argument_has_is_an_assumption_where_nothing_was_followed():
    script = Script()
    x = script.linear(script.data("x", (16, 8)), 32, "h")
    made = script.tensor("made", (48, 5))
    script.call("aten::_no_such_operator", x, out=made)
    place = script.call("aten::relu", made, out=script.tensor("r", (48, 5)))
    scaling = script.scaled()
    assert [scaling.origin(v).what for v in scaling.assumed(place)] == ["a result of aten::_no_such_operator"]
    assert scaling.shapes(place, "unscaled") == ((48, 5),)
    assert scaling.shapes(place, "scaled") == ((192, 5),)


def test_an_expanded_tensor_has_the_batch_where_its_source_has_it():
    script = Script()
    x = script.linear(script.data("x", (16, 12, 8)), 8, "h")
    apart = TensorArgument("a", "h", "float32", (16, 1, 12, 8), (96, 96, 8, 1))
    script.call("aten::unsqueeze", x, 1, out=apart)
    often = TensorArgument("o", "h", "float32", (16, 4, 12, 8), (96, 0, 8, 1))
    script.call("aten::expand", apart, (16, 4, 12, 8), False, out=often)
    script.call("aten::clone", often, 0, out=script.tensor("c", (16, 4, 12, 8)))
    assert last_shapes(script) == ((64, 4, 12, 8),)


def test_a_bias_expanded_over_the_samples_follows_them():
    script = Script()
    x = script.linear(script.data("x", (8, 16)), 16, "h")  # half of a batch of 16, in halves
    script.linear(script.data("y", (16, 16)), 16, "g")
    bias = TensorArgument("b", "b", "float32", (16,))
    own = TensorArgument("e", "b", "float32", (16, 16), (0, 1))
    script.call("aten::linear", x, script.tensor("v", (16, 16)), bias, out=script.tensor("l", (8, 16)))
    script.call("aten::copy_", script.tensor("g", (16, 16)), own, False, out=script.tensor("g", (16, 16)))
    assert last_shapes(script) == ((64, 16), (64, 16))


def test_what_is_repeated_comes_apart_into_repeats_and_samples():
    script = Script()
    x = script.linear(script.data("x", (16, 8)), 3, "h")
    script.call("aten::repeat", x, (5, 1), out=script.tensor("r", (80, 3)))
    windows = TensorArgument("u", "r", "float32", (5, 3, 16), (48, 1, 3))
    script.call("aten::as_strided", script.tensor("r", (80, 3)), (5, 3, 16), (48, 1, 3), None, out=windows)
    script.call("aten::clone", windows, 0, out=script.tensor("c", (5, 3, 16)))
    assert last_shapes(script) == ((5, 3, 64),)


@pytest.mark.parametrize(("operator", "dims"), [("aten::stack", (16, 20)), ("aten::cat", (320,))])
def test_as_many_parts_as_samples_put_together_follow_the_batch(operator: str, dims: Shape):
    script = Script()
    parts = tuple(script.tensor(f"p{i}", (20,)) for i in range(16))
    script.call(operator, parts, 0, out=script.tensor("all", dims))
    place = script.call("aten::relu", script.tensor("all", dims), out=script.tensor("r", dims))
    scaling = script.scaled()
    assert scaling.shapes(place) == ((4 * dims[0], *dims[1:]),)
    assert any("parts as samples" in scaling.origin(v).what for v in scaling.assumed(place))


@pytest.mark.parametrize(
    ("operator", "given", "pieces", "scaled"),
    [
        ("aten::split.Tensor", 4, (4, 4, 4, 4), 4),  # micro-batches: as long, and more of them
        ("aten::split.Tensor", 8, (8, 8), 32),  # halves
        ("aten::chunk", 4, (4, 4, 4, 4), 16),
        ("aten::split_with_sizes", (2, 6, 5, 3), (2, 6, 5, 3), 8),  # shares, as of experts
    ],
)
def test_parts_of_samples(operator: str, given: Argument, pieces: Shape, scaled: int):
    script = Script()
    x = script.linear(script.data("x", (16, 8)), 32, "h")
    script.call(operator, x, given, 0)
    made = tuple(script.tensor(f"p{i}", (size, 32)) for i, size in enumerate(pieces))
    script.calls[-1] = replace(script.calls[-1], outputs=made)
    place = script.call("aten::relu", made[0], out=script.tensor("r", (pieces[0], 32)))
    scaling = script.scaled()
    assert scaling.shapes(place) == ((scaled, 32),)
    assert bool(scaling.assumed(place)) == operator.startswith("aten::split.")
    assert scaling.shapes(place, "scaled") == ((4 * pieces[0], 32),)


def test_a_queue_that_samples_are_written_into_stays():
    script = Script()
    keys = script.linear(script.data("x", (16, 8)), 32, "k")
    queue = script.tensor("q", (256, 32))
    part = TensorArgument("part", "q", "float32", (16, 32), (32, 1))
    script.call("aten::slice.Tensor", queue, 0, 0, 16, 1, out=part)
    script.call("aten::copy_", part, keys, False, out=part)
    assert last_shapes(script) == ((64, 32), (64, 32))
    scaling = script.scaled()
    assert scaling.shapes(len(script.calls) - 2, "unscaled") == ((256, 32),)
    assert scaling.assumed(len(script.calls) - 2)


def test_pairs_of_samples_above_the_diagonal_grow_with_the_square():
    script = Script()
    script.data("x", (16, 8))
    pairs = script.tensor("pairs", (2, 120), "int64")
    script.call("aten::triu_indices", 16, 16, 1, 4, None, "cpu", False, out=pairs)
    place = script.call("aten::select.int", pairs, 0, 0, out=script.tensor("s", (120,), "int64"))
    assert script.scaled().shapes(place) == ((2, 1920),)


def test_samples_folded_into_the_groups_of_a_convolution_follow():
    script = Script()
    style = script.linear(script.data("z", (16, 8)), 72, "s")  # a filter of its own for each sample
    weight, image = script.tensor("v", (128, 1, 3, 3)), script.tensor("i", (1, 128, 8, 8))
    wide = script.tensor("wide", (16, 8, 9))
    script.call("aten::view", style, (16, 8, 9), out=wide)
    script.call("aten::view", wide, (128, 1, 3, 3), out=weight)
    script.call(
        "aten::repeat", script.tensor("c", (1, 8, 8, 8)), (16, 1, 1, 1), out=script.tensor("r", (16, 8, 8, 8))
    )
    script.call("aten::view", script.tensor("r", (16, 8, 8, 8)), (1, 128, 8, 8), out=image)
    made = script.tensor("m", (1, 128, 8, 8))
    script.call("aten::conv2d", image, weight, None, (1, 1), (1, 1), (1, 1), 128, out=made)
    script.call("aten::relu", made, out=script.tensor("o", (1, 128, 8, 8)))
    assert last_shapes(script) == ((1, 512, 8, 8),)


def test_a_gradient_of_parts_is_as_large_as_what_they_were_taken_of():
    script = Script()
    x = script.linear(script.data("x", (16, 40)), 40, "h")  # 40 is no multiple of the batch
    part, grad = script.tensor("part", (16, 30)), script.linear(script.data("y", (16, 8)), 30, "g")
    script.call("aten::slice.Tensor", x, 1, 0, 30, 1, out=part)
    made = script.tensor("made", (16, 40))
    script.call("aten::slice_backward", grad, (16, 40), 1, 0, 30, 1, out=made)
    place = script.call("aten::relu", made, out=script.tensor("r", (16, 40)))
    assert script.scaled().shapes(place) == ((64, 40),)
    assert not script.scaled().assumed(place)


def test_states_of_a_layer_over_packed_steps_follow_its_rows():
    script = Script()
    x = script.linear(script.data("x", (16, 20, 8)), 32, "h")
    packed, lengths = script.tensor("packed", (198, 32)), script.tensor("lengths", (20,), "int64")
    script.call("aten::_pack_padded_sequence", x, script.tensor("l", (16,), "int64"), True)
    script.calls[-1] = replace(script.calls[-1], outputs=(packed, lengths))
    state = script.tensor("s", (2, 16, 32))
    script.call("aten::zeros", (2, 16, 32), 6, None, None, None, out=state)
    weights = (script.tensor("w", (96, 32)), script.tensor("v", (96, 32)))
    place = script.call("aten::gru.data", packed, lengths, state, weights, False, 2, 0.0, True, False)
    scaling = script.scaled()
    assert scaling.shapes(place)[:3] == ((792, 32), (20,), (2, 64, 32))
    assert not scaling.is_open(place)


def test_a_layer_as_wide_as_the_batch_behind_pairs_of_features_does_not_hold_the_batch():
    script = Script()
    starts, pairs = script.tensor("n", (16,), "int64"), script.tensor("pairs", (2, 78), "int64")
    script.call("aten::arange.start_step", 0, 128, 8, 4, None, "cpu", False, out=starts)
    x = script.tensor("x", (16, 169))
    script.call("aten::embedding", script.tensor("table", (100, 169)), starts, -1, False, False, out=x)
    script.call("aten::tril_indices", 13, 13, -1, 4, None, "cpu", False, out=pairs)
    row, taken = script.tensor("row", (78,), "int64"), script.tensor("taken", (16, 78))
    script.call("aten::select.int", pairs, 0, 0, out=row)
    script.call("aten::index_select", x, 1, row, out=taken)
    script.call("aten::relu", script.linear(taken, 16, "t"), out=script.tensor("r", (16, 16)))
    assert last_shapes(script) == ((64, 16),)


def test_batches_of_all_ranks_lie_one_behind_the_other_so_that_ranks_stay_as_many():
    script = Script()
    gathered = script.tensor("g", (32,), "int64")
    script.call("aten::arange.start_step", 0, 256, 8, 4, None, None, False, out=gathered)
    table = script.tensor("w", (100, 4))
    rows = script.tensor("r", (32, 4))
    script.call("aten::embedding", table, gathered, -1, False, False, out=rows)
    by_rank = script.tensor("v", (2, 16, 4))
    script.call("aten::view", rows, (2, 16, 4), out=by_rank)
    place = script.call("aten::transpose.int", by_rank, 0, 1, out=script.tensor("t", (16, 2, 4)))
    assert scale(script.calls, 16, 64, world_size=2).shapes(place) == ((2, 64, 4),)
