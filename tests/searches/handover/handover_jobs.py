"""Plans that each target can run, and what their files say, read back by simple means."""

from __future__ import annotations

import argparse
import json
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfcast.core.machine.cluster import Cluster, Level, Link
from perfcast.core.model.transformer import Experts, LatentAttention, Transformer
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.searches.handover import hand_over

_HERE = Path(__file__).parent
_LINK = Link("made-up", 1e-6, 1e10)

TRAININGS = {
    "megatron": Training(framework="megatron"), "torchtitan": Training(framework="fsdp"),
    "deepspeed": Training(framework="deepspeed"), "fsdp2": Training(framework="fsdp"),
}  # fmt: skip


def cluster(num_devices: int, per_node: int = 4) -> Cluster:
    """Hosts of ``per_node`` devices."""
    inside = min(num_devices, per_node)
    levels = (Level("node", inside, _LINK), Level("network", num_devices // inside, _LINK))
    return Cluster("made-up", "Made up", "h100-sxm", levels)


def write(
    model: Transformer, plan: Plan, target: str, sequence_length: int = 64, **changes: Any
) -> Mapping[str, str]:
    """The files of a target."""
    training = changes.get("training", TRAININGS[target])
    return hand_over(plan, model, training, sequence_length, cluster(plan.world_size), target)


def deepseek(**changes: Any) -> Transformer:
    """Latent attention, experts behind one dense layer, shared experts, one prediction layer."""
    sizes: dict[str, Any] = {
        "num_layers": 8, "hidden_size": 64, "num_attention_heads": 8, "num_kv_heads": 8, "head_size": 24,
        "ffn_hidden_size": 192, "vocab_size": 512, "is_gated": True, "activation": "silu", "norm": "rmsnorm",
        "has_linear_bias": False, "has_qkv_bias": False, "ties_embeddings": False,
        "experts": Experts(8, 2, 96, shared_ffn_hidden_size=96, num_dense_layers=1),
        "latent_attention": LatentAttention(32, 16, 16, 8, 16), "num_prediction_layers": 1,
    }  # fmt: skip
    return Transformer(**(sizes | changes))


def megatron_parser() -> argparse.ArgumentParser:
    """Megatron-LM's, as far as the table knows it."""
    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    table = tomllib.loads((_HERE / "megatron_arguments.toml").read_text(encoding="utf-8"))["arguments"]
    kinds = {"int": int, "float": float, "str": str}
    for name, row in table.items():
        if row["type"] == "switch":
            parser.add_argument(name, action="store_true")
        else:
            options = {key: row[key] for key in ("choices", "nargs") if key in row}
            parser.add_argument(name, type=kinds[row["type"]], **options)
    return parser


def megatron_words(files: Mapping[str, str], folder: Path) -> list[str]:
    """The array of the shell, as the shell reads it."""
    path = folder / "megatron_arguments.sh"
    path.write_text(files["megatron_arguments.sh"], encoding="utf-8")
    script = f'set -eu; source {path}; printf "%s\\0" "${{ARGUMENTS[@]}}"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True, text=True)
    return done.stdout.split("\0")[:-1]


def read_toml(files: Mapping[str, str]) -> dict[str, Any]:
    """torchtitan's settings."""
    return tomllib.loads(files["torchtitan.toml"])


def read_json(files: Mapping[str, str]) -> dict[str, Any]:
    """DeepSpeed's settings."""
    settings: dict[str, Any] = json.loads(files["deepspeed.json"])
    return settings
