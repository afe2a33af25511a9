"""A transformer that reads a row of numbers as a sequence of tokens."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from perfcast.published.comparison import print_part


class TokenTransformer(nn.Module):
    """Each input is a token: a line of its own into ``width`` dimensions, which also tells its place.

    Encoder layers with ReLU and a feed-forward width of four times ``width``, no dropout; a last linear layer
    reads all tokens.
    """

    def __init__(self, num_inputs: int, width: int, num_heads: int, num_layers: int) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.randn(num_inputs, width) * width**-0.5)
        self.offset = nn.Parameter(torch.randn(num_inputs, width) * width**-0.5)
        layer = nn.TransformerEncoderLayer(width, num_heads, 4 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)
        self.head = nn.Linear(num_inputs * width, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        """Outputs [n, 1] for inputs [n, f]."""
        tokens = inputs[:, :, None] * self.slope + self.offset
        outputs: Tensor = self.head(self.encoder(tokens).flatten(1))
        return outputs


if __name__ == "__main__":
    print_part("nets.tokens", "habitat", "nets")
