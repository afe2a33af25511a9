"""What trains, as text: ``rank=16,targets=q+v`` of adapters, ``embedding,layers:0-15`` of what is frozen."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from perfcast.core.tuning.trained import (
    BASE_WEIGHTS,
    FULL,
    PARTS,
    TARGETS,
    Adapters,
    Part,
    Target,
    Tuning,
)
from perfcast.core.words import known_word
from perfcast.errors import PlanError, UnknownNameError
from perfcast.ranges import SHARE, Range, excerpt, read_number, read_whole

_KEYS = ("rank", "targets", "dropout", "base", "a2a")
#: Groups of targets, and how PEFT names linear layers (huggingface/peft: utils/constants.py).
_GROUPS: Mapping[str, tuple[Target, ...]] = MappingProxyType(
    {
        "all-linear": TARGETS,
        "attention": ("q", "k", "v", "o"),
        "mlp": ("gate", "up", "down"),
        **{name: (name,) for name in TARGETS},
        **{f"{name}_proj": (name,) for name in TARGETS},
        "out_proj": ("o",),
        "fc1": ("up",),
        "fc2": ("down",),
    }
)


def parse_tuning(lora: str | None = None, qlora: str | None = None, freeze: str | None = None) -> Tuning:
    """What options say of it; nothing says that everything trains.

    Args:
        lora: Items of ``Adapters`` such as 'rank=16,targets=q+v,dropout=0.1,base=nf4'.
        qlora: The same with four-bit weights of the model.
        freeze: Parts, and layers such as 'layers:0-15'.

    Raises:
        PlanError: Values out of range, options that contradict.
        UnknownNameError: Keys or words that it does not know.
    """
    if lora is not None and qlora is not None:
        raise PlanError("--lora with --qlora: take one of them; --qlora is --lora with base=nf4")
    if freeze is not None and (lora is not None or qlora is not None):
        raise PlanError("--freeze with adapters: they freeze every weight of the model; leave it out")
    if qlora is not None:
        return Tuning(adapters=parse_adapters(qlora, "--qlora", is_quantised=True))
    if lora is not None:
        return Tuning(adapters=parse_adapters(lora, "--lora"))
    return FULL if freeze is None else parse_frozen(freeze)


def parse_adapters(text: str, option: str, *, is_quantised: bool = False) -> Adapters:
    """Adapters of an option's text.

    >>> parse_adapters("rank=8,targets=q+v", "--lora").targets
    ('q', 'v')

    Raises:
        PlanError: An item that is no ``key=value``, a value that its key cannot have.
        UnknownNameError: A key or word that it does not know.
    """
    values = _items(text, option)
    given: dict[str, object] = {"base": "nf4" if is_quantised else "plain"}
    if "base" in values:
        base = known_word("base", values["base"], BASE_WEIGHTS)
        if is_quantised and base != "nf4":
            raise PlanError(f"{option} base={base}: it keeps the model in nf4; take --lora")
        given["base"] = base
    if "rank" in values:
        given["rank"] = _whole(values["rank"], option, "rank")
    if "targets" in values:
        given["targets"] = _targets(values["targets"])
    if "dropout" in values:
        given["dropout"] = _share(values["dropout"], option)
    if "a2a" in values:
        given["trades_outputs"] = known_word("a2a", values["a2a"], ("0", "1")) == "1"
    return Adapters(**given)  # type: ignore[arg-type]


def parse_frozen(text: str) -> Tuning:
    """What is frozen, of an option's text.

    >>> parse_frozen("embedding,layers:0-15").frozen_layers
    (0, 15)

    Raises:
        PlanError: Layers that are no row.
        UnknownNameError: A part that models do not have.
    """
    parts: list[Part] = []
    layers: tuple[int, int] | None = None
    for item in filter(None, re.split(r"[,\s]+", text)):
        name, colon, row = item.partition(":")
        if name != "layers":
            parts.append(known_word("part", item, PARTS))
            continue
        match = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", row)
        if not colon or match is None:
            raise PlanError(f"--freeze {item}: write a row of layers such as layers:0-15")
        if layers is not None:
            raise PlanError("--freeze with two rows of layers: it takes one")
        layers = (int(match[1]), int(match[2] or match[1]))
    if not parts and layers is None:
        raise PlanError("--freeze without a part; name some, such as embedding,layers:0-15")
    return Tuning(frozen_parts=tuple(part for part in PARTS if part in parts), frozen_layers=layers)


def format_tuning(tuning: Tuning) -> str:
    """The options that say it: '' where everything trains.

    >>> format_tuning(Tuning(adapters=Adapters(rank=8, targets=("q", "v"))))
    '--lora rank=8,targets=q+v'
    """
    adapters = tuning.adapters
    if adapters is not None:
        option = "--qlora" if adapters.is_quantised else "--lora"
        dropout = f",dropout={adapters.dropout:g}" if adapters.dropout else ""
        trades = ",a2a=1" if adapters.trades_outputs else ""
        return f"{option} rank={adapters.rank},targets={format_targets(adapters)}{dropout}{trades}"
    frozen = _frozen_items(tuning)
    return f"--freeze {','.join(frozen)}" if frozen else ""


def read_tuning(text: str) -> Tuning:
    """What ``format_tuning`` has written.

    >>> read_tuning("--freeze embedding").frozen_parts
    ('embedding',)

    Raises:
        PlanError, UnknownNameError: As ``parse_tuning``.
    """
    if not text:
        return FULL
    option, _, items = text.partition(" ")
    known_word("option", option, ("--lora", "--qlora", "--freeze"))
    return parse_tuning(**{option.removeprefix("--"): items})


def describe_tuning(tuning: Tuning) -> str:
    """What trains, in words; '' where everything does.

    >>> describe_tuning(Tuning(adapters=Adapters(rank=8, base="nf4")))
    'QLoRA rank 8 on all-linear'
    """
    adapters = tuning.adapters
    if adapters is not None:
        kind = "QLoRA" if adapters.is_quantised else "LoRA"
        dropout = f", dropout {adapters.dropout:g}" if adapters.dropout else ""
        return f"{kind} rank {adapters.rank} on {format_targets(adapters)}{dropout}"
    frozen = _frozen_items(tuning)
    return f"frozen: {', '.join(frozen)}" if frozen else ""


def format_targets(adapters: Adapters) -> str:
    """Targets by the name of their group, or one by one."""
    for name in ("all-linear", "attention", "mlp"):
        if set(_GROUPS[name]) == set(adapters.targets):
            return name
    return "+".join(target for target in TARGETS if target in adapters.targets)


def _frozen_items(tuning: Tuning) -> list[str]:
    row = [f"layers:{tuning.frozen_layers[0]}-{tuning.frozen_layers[1]}"] if tuning.frozen_layers else []
    return [*tuning.frozen_parts, *row]


def _items(text: str, option: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in filter(None, re.split(r"[,\s]+", text)):
        key, equals, value = item.partition("=")
        if not equals or not value:
            raise PlanError(f"{option} {item}: write key=value, such as rank=16,targets=all-linear")
        if key == "alpha":
            raise PlanError(
                f"{option} {item}: it scales a product that runs anyway, and changes no time; leave it out"
            )
        if key not in _KEYS:
            raise UnknownNameError(f"key of {option}", key, _KEYS, f"Known: {', '.join(_KEYS)}.")
        if key in found:
            raise PlanError(f"{option}: {key} is said twice")
        found[key] = value
    return found


def _targets(text: str) -> tuple[Target, ...]:
    named = {
        target for word in text.split("+") for target in _GROUPS[known_word("target", word, tuple(_GROUPS))]
    }
    return tuple(target for target in TARGETS if target in named)


#: Ranks of adapters.
_SIZES = Range(0, 1_000_000)


def _whole(text: str, option: str, key: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise PlanError(f"{option} {key}={excerpt(text)}: not a whole number")
    return read_whole(f"{option} {key}:", text, _SIZES, PlanError)


def _share(text: str, option: str) -> float:
    return read_number(f"{option} dropout:", text, SHARE, PlanError)
