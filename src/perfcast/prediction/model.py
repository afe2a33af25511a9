"""A model as it is named, read once: its configuration, and the sizes of which closed forms are made."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from perfcast.catalogs.models import load_model
from perfcast.core.mode import MOST_TOKENS
from perfcast.core.model.transformer import Transformer
from perfcast.core.own_module import OwnModule
from perfcast.errors import ModelError, PlanError, UnknownNameError
from perfcast.workload.models.config import read_config

#: Whose tables are spread over devices, as ``core.recommender`` describes it.
RECOMMENDER = "DLRM"
#: What names of the package timm begin with.
TIMM_PREFIX = "timm:"


@dataclass(frozen=True)
class NamedModel:
    """A model as it was asked for.

    Attributes:
        name: Of the catalog, a config.json or its folder, ``timm:NAME``, or ``FILE.py:FUNCTION``;
            'transformer' where the sizes themselves were given.
        config: Empty for a program, for a model of timm and for given sizes.
        architecture: Class that runs it; None: the configuration says.
        own_sequence_length: Tokens that it was trained with, or that it can take; None where it states none.
        given_sizes: Where the sizes themselves were given.
        is_in_catalog: Whether the name is of the catalog.
        own_module: A module that the user holds, whose class is then the name.
    """

    name: str
    config: Mapping[str, Any] = field(default_factory=dict)
    architecture: str | None = None
    own_sequence_length: int | None = None
    given_sizes: Transformer | None = None
    is_in_catalog: bool = False
    own_module: OwnModule | None = None

    @property
    def is_program(self) -> bool:
        """Whether it is a function of a file or a module of the user's, which has no sizes to read."""
        return self.own_module is not None or ".py:" in self.name

    @property
    def is_timm(self) -> bool:
        """Whether it is an image model of the package timm, which has no sizes to read either."""
        return self.name.startswith(TIMM_PREFIX) and not self.is_program

    @property
    def is_recommender(self) -> bool:
        """Whether it is a recommendation model of the catalog."""
        return self.architecture == RECOMMENDER

    @property
    def can_be_captured(self) -> bool:
        """Whether its own modules can be built and run; not where the sizes alone were given."""
        return self.given_sizes is None

    @property
    def has_sizes(self) -> bool:
        """Whether closed forms describe it; else it is captured."""
        return isinstance(self._sizes, Transformer)

    @property
    def sizes(self) -> Transformer:
        """What closed forms are made of.

        Raises:
            ModelError: No closed form describes the model.
        """
        if isinstance(self._sizes, Transformer):
            return self._sizes
        raise ModelError(self._sizes)

    def drafting(self) -> NamedModel:
        """The model with its own layers that predict further tokens, as one that drafts runs them.

        Configurations state them as 'num_nextn_predict_layers' (DeepSeek, GLM), 'mtp_num_hidden_layers'
        (Qwen3.5) or 'num_mtp_modules' (MiniMax-M2); sizes leave them out, as a model without drafts does.
        """
        stated = [self.config.get(name) for name in _PREDICTION_LAYERS]
        count = next((int(each) for each in stated if each), 0)
        if not count or self.sizes.num_prediction_layers:
            return self
        return replace(self, given_sizes=replace(self.sizes, num_prediction_layers=count))

    @cached_property
    def _sizes(self) -> Transformer | str:
        """The sizes, or why there are none."""
        from perfcast.workload.models.transformer import read_transformer

        if self.given_sizes is not None:
            return self.given_sizes
        if self.is_program:
            return f"{self.name}: a plan over several devices needs the sizes of a model, not a program"
        if self.is_timm:
            return (
                f"{self.name}: an image model has no sizes that plans are made of; its own modules run on "
                "one device, or on several under a plan that is given (perfcast predict --plan dp=N)"
            )
        try:
            return read_transformer(self.config, self.architecture)
        except ModelError as error:
            return f"{self.name}: {error}"

    @property
    def usual_sequence_length(self) -> int | None:
        """Tokens of a sequence where none are asked for: the model's own, at most ``MOST_TOKENS``."""
        own = self.own_sequence_length
        return None if own is None else min(own, MOST_TOKENS)

    @property
    def most_tokens(self) -> int | None:
        """The longest sequence that it says it takes; None where it states none."""
        stated = _stated_positions(self.config)
        return max(filter(None, (self.own_sequence_length, stated)), default=None)

    def sequence_length(self, asked: int | None) -> int:
        """Tokens of a sequence: those asked for, or as many as are usual.

        Raises:
            ModelError: Neither.
            PlanError: Less than one.
        """
        if self.is_timm:
            raise ModelError(str(self._sizes))
        length = self.usual_sequence_length if asked is None else asked
        if length is None:
            raise ModelError(f"{self.name} states no sequence length; give --sequence-length")
        if length < 1:
            raise PlanError(f"sequence length {length}: must be at least 1")
        return length


_PREDICTION_LAYERS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")

#: How a request names a model: by name, by its sizes, as a module, or as it was read before.
Model = str | Transformer | OwnModule | NamedModel


def read_model(model: Model) -> NamedModel:
    """A model by its name, by its sizes, as a module that the user holds, or as it was read before.

    A name is of the catalog, a Hugging Face config.json or its folder, ``timm:NAME``, or
    ``FILE.py:FUNCTION``.

    Raises:
        InputError: Unknown or unreadable. Whether timm has a name is known once it is built: asking takes
            seconds, and what was captured before needs no answer.
    """
    if isinstance(model, NamedModel):
        return model
    if isinstance(model, Transformer):
        return NamedModel("transformer", given_sizes=model)
    if isinstance(model, OwnModule):
        return NamedModel(model.title, own_module=model)
    if ".py:" in model:
        return NamedModel(model)
    if model.startswith(TIMM_PREFIX):
        return NamedModel(model)
    path = Path(model)
    if path.suffix == ".json" or path.is_dir():
        config = read_config(path)
        return NamedModel(model, config, own_sequence_length=_trained_positions(config))
    try:
        entry = load_model(model)
    except UnknownNameError as error:
        if _HUB_ID.fullmatch(model):
            raise ModelError(_about_hub(model, error.close_names)) from None
        raise
    length = None if entry.sequence_length is None else int(entry.sequence_length.value)
    return NamedModel(model, entry.config, entry.architecture, length, is_in_catalog=True)


#: 'owner/name' of the Hugging Face hub; a path would begin otherwise.
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def _about_hub(model: str, close_names: Sequence[str]) -> str:
    """What to do where a model of the hub is named, of which nothing is downloaded here."""
    folder = model.rpartition("/")[2]
    similar = f" The catalog has {', '.join(close_names)}." if close_names else ""
    return (
        f"'{model}' is no folder here, and looks like a model of the Hugging Face hub, from which nothing is "
        f"downloaded.{similar} Its config.json alone is needed: 'hf download {model} config.json --local-dir "
        f"{folder}', then give {folder} as the model"
    )


def _stated_positions(config: Mapping[str, Any]) -> int | None:
    """The longest sequence of a configuration; of one that also sees, of its language model."""
    text = config.get("text_config")
    tables = (config, text if isinstance(text, Mapping) else {})
    names = ("max_position_embeddings", "n_positions")
    found = [table[name] for table in tables for name in names if isinstance(table.get(name), int)]
    return found[0] if found else None


def _trained_positions(config: Mapping[str, Any]) -> int | None:
    """What a configuration says that its positions were trained with, before they were stretched."""
    for table in (config.get("rope_parameters"), config.get("rope_scaling"), config):
        found = table.get("original_max_position_embeddings") if isinstance(table, Mapping) else None
        if isinstance(found, int) and found > 0:
            return found
    return _stated_positions(config)
