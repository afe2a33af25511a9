"""A program to record: ``perfcast trace record --out traces -- python examples/train.py``.

Nothing in it knows of perfcast. Steps are counted by its optimizer.
"""

from __future__ import annotations

import torch
from torch import nn

BATCH_SIZE, LENGTH, WIDTH, NUM_STEPS = 16, 64, 256, 60


def main() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, 2), nn.Linear(WIDTH, WIDTH))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(NUM_STEPS):
        inputs = torch.randn(BATCH_SIZE, LENGTH, WIDTH)
        loss = nn.functional.mse_loss(model(inputs), inputs)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
