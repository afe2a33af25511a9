"""Programs by the names that ``setups.toml`` gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from perfcast.evidence.validate.vision.examples.programs.efficientnet import build_efficientnet
from perfcast.evidence.validate.vision.examples.programs.jasper import build_jasper
from perfcast.evidence.validate.vision.examples.programs.language import (
    build_bart,
    build_bert,
    build_transformer,
)
from perfcast.evidence.validate.vision.examples.programs.neumf import build_neumf
from perfcast.evidence.validate.vision.examples.programs.nnunet import build_nnunet
from perfcast.evidence.validate.vision.examples.programs.resnet import build_resnet
from perfcast.evidence.validate.vision.examples.programs.shape import ProgramShape
from perfcast.evidence.validate.vision.examples.programs.speech import build_fastpitch
from perfcast.evidence.validate.vision.examples.programs.ssd import build_ssd
from perfcast.evidence.validate.vision.examples.programs.tacotron2 import build_tacotron2
from perfcast.evidence.validate.vision.examples.programs.tft import build_tft
from perfcast.evidence.validate.vision.examples.programs.transformer_xl import build_transformer_xl
from perfcast.evidence.validate.vision.examples.programs.vocoders import build_waveglow
from perfcast.workload.step import Program

PROGRAMS: Mapping[str, Callable[[ProgramShape], Program]] = {
    **{f"efficientnet-{size}": partial(build_efficientnet, size, False) for size in ("b0", "b4")},
    **{f"efficientnet-widese-{size}": partial(build_efficientnet, size, True) for size in ("b0", "b4")},
    **{name: partial(build_resnet, name) for name in ("resnet50", "resnext101-32x4d", "se-resnext101-32x4d")},
    "ssd300": build_ssd,
    "nnunet-2d": partial(build_nnunet, 2),
    "nnunet-3d": partial(build_nnunet, 3),
    "jasper": partial(build_jasper, False),
    "quartznet": partial(build_jasper, True),
    "transformer-xl-base": partial(build_transformer_xl, "base"),
    "transformer-xl-large": partial(build_transformer_xl, "large"),
    "ncf": build_neumf,
    "fastpitch": partial(build_fastpitch, "none"),
    "fastpitch-hifigan": partial(build_fastpitch, "hifigan"),
    "fastpitch-waveglow": partial(build_fastpitch, "waveglow"),
    "waveglow": build_waveglow,
    "tacotron2-waveglow": build_tacotron2,
    "tft-electricity": partial(build_tft, "electricity"),
    "tft-traffic": partial(build_tft, "traffic"),
    "bert-pretrain": partial(build_bert, "pretrain"),
    "bert-squad": partial(build_bert, "squad"),
    "bart-pretrain": partial(build_bart, "pretrain"),
    "bart-xsum": partial(build_bart, "xsum"),
    "transformer-big": build_transformer,
}
