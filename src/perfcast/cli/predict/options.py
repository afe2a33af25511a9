"""Options of ``perfcast predict`` alone."""

from __future__ import annotations

from dataclasses import dataclass

import click

from perfcast.cli.options.pack import packed


@dataclass(frozen=True, kw_only=True)
class PredictOptions:
    """Where a step runs, and how it is priced and timed, as the options give it."""

    cluster: str | None
    cost_model: str | None
    framework: str | None
    weights: str | None
    world_size: int | None
    closed_form: bool
    stragglers: str | None
    chakra: str | None
    host: str | None
    cuda_graphs: bool


predict_options = packed(
    PredictOptions,
    "own",
    click.option(
        "--cluster", metavar="NAME:N", help="Devices and their links; see 'perfcast catalog clusters'."
    ),
    click.option(
        "--cost-model", help="learned (default), roofline, linear (default for cpu), or a published one."
    ),
    click.option(
        "--framework",
        help="Whose program runs. Training: pytorch (the model's own modules), fsdp, megatron, …; "
        "default: what the plan suggests, on one device pytorch. Inference: vllm (default of models that "
        "generate), sglang, trtllm, pytorch.",
    ),
    click.option("--weights", metavar="DIR", help="Trained models for learned; default: the shipped ones."),
    click.option(
        "--world-size", type=int, help="Ranks of a parallel FILE.py:FUNCTION; sizes are one rank's."
    ),
    click.option(
        "--closed-form", is_flag=True, help="Under a plan: formulas of the pipeline, not its events."
    ),
    click.option(
        "--stragglers", metavar="SPEC", help="Under a plan: how ranks differ, such as lognormal:0.02."
    ),
    click.option(
        "--host",
        metavar="NAME",
        help="Processor that issues the kernels of one device: fast, slow, or one such as epyc-7742; "
        "default: what machines with the device usually have.",
    ),
    click.option("--cuda-graphs", is_flag=True, help="One device: the step is replayed as one CUDA graph."),
    click.option("--chakra", metavar="DIR", help="Chakra traces of the step; under a plan, for ASTRA-sim."),
)
