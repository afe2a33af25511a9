"""How the ranks are started: torchrun on every host, by hand or through Slurm.

Ranks are numbered host by host (PyTorch: distributed/run.py, --node-rank with a static rendezvous), so that
neighbours in the plan are neighbours in the cluster.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from perfcast.searches.handover.job import Job, spoken

_WIDTH = 108
LAUNCH_FILE, SLURM_FILE = "launch.sh", "job.sbatch"


def write_launch_files(
    job: Job,
    program: str,
    environment: Mapping[str, str] | None = None,
    before: str = "",
    left_to_you: Sequence[str] = (),
) -> dict[str, str]:
    """A shell script for one host, and a Slurm job that runs it on all.

    Args:
        program: What torchrun starts, with its arguments.
        environment: Variables of every rank.
        before: Lines of the shell that come first.
        left_to_you: What of the plan or the model the files do not say, in words.
    """
    exports = "".join(f"export {name}={value}\n" for name, value in (environment or {}).items())
    return {
        LAUNCH_FILE: _LAUNCH.format(
            exports=exports,
            before=before,
            nodes=job.num_nodes,
            devices=job.devices_per_node,
            program=program,
            plan=_describe(job, left_to_you),
        ),
        SLURM_FILE: _SLURM.format(name=job.name, nodes=job.num_nodes, devices=job.devices_per_node),
    }


def _describe(job: Job, left_to_you: Sequence[str]) -> str:
    """Comments of the shell: the plan, what it was forecast for, and what is left to the user."""
    plan = job.plan
    imbalance = plan.expert_imbalance
    notes = [
        f"The plan: dp={plan.data_parallel} · tp={plan.tensor_parallel} · pp={plan.pipeline_parallel} · "
        f"cp={plan.context_parallel} = {plan.world_size} devices; each of the {plan.data_parallel} replicas "
        f"runs {plan.num_micro_batches} micro-batches of {plan.micro_batch_size}, {plan.global_batch_size} "
        f"sequences of {job.sequence_length} tokens a step. Forecast with the kernels of "
        f"'{job.training.framework}'.",
        *spoken([(imbalance != 1, f"The forecast takes the busiest experts at {imbalance:g} x the mean.")]),
        *(f"Left to you: {note}." for note in left_to_you),
    ]
    lines = [line for note in notes for line in textwrap.wrap(note, _WIDTH, break_on_hyphens=False)]
    return "".join(f"# {line}\n" for line in lines)


_LAUNCH = """\
#!/usr/bin/env bash
{plan}# Run on each of the {nodes} hosts, in this folder: NODE_RANK is the host's place, from 0, and
# MASTER_ADDR the name of host 0. Hosts that are close in the network should have neighbouring places.
set -euo pipefail
{exports}{before}torchrun --nnodes={nodes} --nproc-per-node={devices} --node-rank="${{NODE_RANK:-0}}" \\
    --master-addr="${{MASTER_ADDR:-localhost}}" --master-port="${{MASTER_PORT:-29500}}" \\
    {program}
"""

_SLURM = """\
#!/usr/bin/env bash
#SBATCH --job-name={name}
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node={devices}
#SBATCH --exclusive
set -euo pipefail
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_ADDR
srun --kill-on-bad-exit=1 bash -c 'NODE_RANK=$SLURM_NODEID bash launch.sh'
"""
