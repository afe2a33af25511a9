"""Linear layers by oneDNN compute what PyTorch's own do."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from perfcast.torch_internals.onednn import fast_linear_layers, has_onednn


@pytest.mark.parametrize("shape", [(7, 16), (3, 5, 16)])
@pytest.mark.parametrize("bias", [True, False])
def test_values_and_gradients_are_those_of_a_plain_linear_layer(shape: tuple[int, ...], bias: bool):
    torch.manual_seed(0)
    layer, inputs = nn.Linear(16, 24, bias=bias), torch.randn(*shape, requires_grad=True)

    def results() -> list[Tensor]:
        outputs = layer(inputs)
        return [outputs, *torch.autograd.grad(outputs.square().sum(), [inputs, *layer.parameters()])]

    plain = results()
    with fast_linear_layers():
        fast = results()
    for one, other in zip(plain, fast, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-4)


def test_attention_takes_it_too_and_afterwards_nothing_is_replaced():
    before = functional.linear
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    with fast_linear_layers():
        assert (functional.linear is not before) == has_onednn()
        outputs = layer(torch.randn(2, 3, 16))
    assert functional.linear is before
    assert outputs.shape == (2, 3, 16)


def test_other_precisions_stay_with_pytorch():
    layer = nn.Linear(4, 4).double()
    with fast_linear_layers():
        assert layer(torch.zeros(2, 4).double()).dtype is torch.float64
