"""Which parts of a model train.

Low-rank adaptation freezes a model and puts two narrow matrices beside some linear layers:
y = W·x + B·A·dropout(x), A of rank × inputs and B of outputs × rank (Hu et al.: LoRA, 2021, section 4.1).
QLoRA keeps W in four bits and widens it for each product (Dettmers et al.: NeurIPS 2023, section 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from perfcast.core.words import known_word
from perfcast.errors import PlanError

Part = Literal["embedding", "attention", "mlp", "experts", "router", "norms", "head"]
Target = Literal["q", "k", "v", "o", "gate", "up", "down"]
BaseWeights = Literal["plain", "nf4"]

PARTS: tuple[Part, ...] = get_args(Part)
TARGETS: tuple[Target, ...] = get_args(Target)
BASE_WEIGHTS: tuple[BaseWeights, ...] = get_args(BaseWeights)
#: Of which a layer consists.
PARTS_OF_LAYERS: tuple[Part, ...] = ("attention", "mlp", "experts", "router", "norms")
#: Bytes of a weight in NF4 with double quantisation: four bits, a scale of eight for each 64 weights, and one
#: of 32 for each 256 of those (Dettmers et al., 2023, section 3: 0.127 bits for the scales).
NF4_BYTES = 4 / 8 + 1 / 64 + 4 / (64 * 256)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapters:
    """Low-rank adapters; every weight of the model itself is frozen.

    Attributes:
        rank: Of each.
        targets: Linear layers that have one: attention's and those of dense and shared MLPs. Experts that a
            router chooses have none.
        dropout: Share of an adapter's input that training drops; 0 runs no dropout.
        trades_outputs: Under tensor with sequence parallelism, whether an adapter beside a row-parallel layer
            trades its outputs for tokens (all-to-all); else its outputs are gathered.
        base: How the model's own weights are kept: 'plain', in the format of the products, or 'nf4', the
            matrices of its layers in four bits.

    Raises:
        PlanError: Values out of range.
        UnknownNameError: Words that it does not know.
    """

    rank: int = 16
    targets: tuple[Target, ...] = TARGETS
    dropout: float = 0.0
    base: BaseWeights = "plain"
    trades_outputs: bool = False

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise PlanError(f"adapters of rank {self.rank}: must be at least 1")
        if not self.targets:
            raise PlanError("adapters without a target; name linear layers, such as targets=q+v")
        for target in self.targets:
            known_word("target", target, TARGETS)
        if not 0 <= self.dropout < 1:
            raise PlanError(f"dropout={self.dropout:g} of adapters: must be at least 0 and below 1")
        known_word("base", self.base, BASE_WEIGHTS)

    @property
    def is_quantised(self) -> bool:
        """Whether the model's matrices are kept in four bits."""
        return self.base == "nf4"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """What trains; by default everything.

    Attributes:
        adapters: Beside a frozen model; None: the model's own weights train.
        frozen_parts: Of the model, whose weights stay as they are; experts and their router are of the MLP.
        frozen_layers: The first and the last of a row of layers that stay as they are, from 0; None: none.

    Raises:
        PlanError: Parts frozen beside adapters, which freeze all of them; a row of layers that ends before it
            begins.
        UnknownNameError: A part that models do not have.
    """

    adapters: Adapters | None = None
    frozen_parts: tuple[Part, ...] = ()
    frozen_layers: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        for part in self.frozen_parts:
            known_word("part", part, PARTS)
        if self.adapters is not None and (self.frozen_parts or self.frozen_layers):
            raise PlanError("adapters freeze every weight of the model: leave out what else is frozen")
        if set(self.frozen_parts) == set(PARTS):
            raise PlanError("every part of the model is frozen; nothing trains")
        if self.frozen_layers is not None and not 0 <= self.frozen_layers[0] <= self.frozen_layers[1]:
            first, last = self.frozen_layers
            raise PlanError(
                f"frozen layers {first}-{last}: the first of the model is 0, and the last not below it"
            )

    @property
    def is_full(self) -> bool:
        """Whether everything trains."""
        return self == FULL

    @property
    def is_quantised(self) -> bool:
        """Whether the model's matrices are kept in four bits."""
        return self.adapters is not None and self.adapters.is_quantised

    def trains(self, part: Part) -> bool:
        """Whether the model's own weights of a part train, in layers that are not frozen."""
        in_mlp = part in ("experts", "router") and "mlp" in self.frozen_parts
        return self.adapters is None and part not in self.frozen_parts and not in_mlp

    def freezes_layer(self, layer: int) -> bool:
        """Whether a layer is one of the frozen row."""
        return self.frozen_layers is not None and self.frozen_layers[0] <= layer <= self.frozen_layers[1]

    def has_gradient(self, layer: int) -> bool:
        """Whether a gradient reaches a layer: it or something before it trains."""
        return layer >= self.first_with_gradient

    @property
    def first_with_gradient(self) -> int:
        """The first layer that a gradient reaches; those before it run no backward and keep nothing for it.

        With a frozen embedding, the first layer of which something trains; a number beyond all layers where
        the head alone does.
        """
        if self.trains("embedding"):
            return 0
        if self.adapters is None and not any(self.trains(part) for part in PARTS_OF_LAYERS):
            return NO_LAYER
        frozen = self.frozen_layers
        return 0 if frozen is None or frozen[0] > 0 else frozen[1] + 1


#: Everything trains.
FULL = Tuning()
#: Beyond every model's layers.
NO_LAYER = 10**6
