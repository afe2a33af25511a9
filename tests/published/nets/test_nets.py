"""The nets that are trained."""

from __future__ import annotations

import torch
from torch import nn

from perfcast.published.nets.mlp import build_mlp
from perfcast.published.nets.tokens import TokenTransformer


def test_an_mlp_of_eight_layers_has_eight_linear_ones():
    net = build_mlp(4, 3, 16, 8)
    assert sum(isinstance(layer, nn.Linear) for layer in net) == 8
    assert net(torch.zeros(5, 4)).shape == (5, 3)


def test_the_token_transformer_tells_its_inputs_apart():
    torch.manual_seed(0)
    net = TokenTransformer(8, 16, 4, 2).eval()
    row = torch.arange(8.0)[None]
    assert net(row).shape == (1, 1)
    assert not torch.allclose(net(row), net(row.flip(1)))
