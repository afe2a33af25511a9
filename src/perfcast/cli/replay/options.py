"""Options of ``perfcast replay``."""

from __future__ import annotations

import click

from perfcast.cli.options.asking import asking
from perfcast.cli.options.places import OUTPUT_FILE, OUTPUT_FOLDER
from perfcast.cli.trace.options import asked_limit_option
from perfcast.verbs.replay.question import ReplayQuestion

_SELECTION = (
    click.argument("traces", nargs=-1, required=True, metavar="TRACE..."),
    click.option("--timeline", metavar="FILE"),
    click.option("--steps", metavar="A:B"),
    click.option("--subtree", "--module-path", "subtree", default="", metavar="NAME"),
    click.option("--only", type=click.Choice(["compute", "communication"])),
    click.option("--allow", multiple=True, metavar="OPS"),
    click.option("--skip", multiple=True, metavar="OPS"),
    click.option("--batch-size", "--batch", "batch_size", metavar="FROM:TO"),
    click.option("--values", metavar="DIR"),
    click.option("--reuse", default="", metavar="SHARES"),
    click.option("--module", default="", metavar="FILE.py"),
    click.option("--run-triton", is_flag=True),
    asked_limit_option,
    click.option("--max-tensor-bytes", default="16GiB", show_default=True, metavar="SIZE"),
)
_PLAYING = (
    click.option("--device", metavar="NAME"),
    click.option("--repeat", type=int, metavar="N"),
    click.option("--warm-up", type=int, default=5, show_default=True, metavar="N"),
    click.option(
        "--host-gaps", is_flag=False, flag_value="scaled", default="off", show_default=True,
        type=click.Choice(["off", "recorded", "scaled"]),
    ),
    click.option(
        "--prepare", type=click.Choice(["auto", "ahead", "lazily"]), default="auto", show_default=True
    ),
    click.option("--threads", type=int, default=0, metavar="N"),
)  # fmt: skip
_RANKS = (
    click.option("--ranks", type=int, metavar="N"),
    click.option("--backend", type=click.Choice(["gloo", "nccl"]), default="gloo", show_default=True),
    click.option("--blocking", is_flag=True),
    click.option("--world-size", type=int, metavar="N"),
    click.option("--rebalance", is_flag=True),
    click.option("--emulate", metavar="[CLUSTER]:RANKS"),
)
_OUTPUTS = (
    click.option("--profile", type=OUTPUT_FILE, metavar="FILE"),
    click.option(
        "--generate",
        "generate_folder",
        type=OUTPUT_FOLDER,
        metavar="DIR",
        help="A program that needs PyTorch only.",
    ),
    click.option("--anonymise", is_flag=True, help="The generated program's names hashed."),
)

#: TRACE and everything that says how it is replayed.
replay_options = asking(ReplayQuestion, *_SELECTION, *_PLAYING, *_RANKS, *_OUTPUTS)
