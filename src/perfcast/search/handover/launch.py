"""How the ranks are started: torchrun on every host, by hand or through Slurm.

Ranks are numbered host by host (PyTorch: distributed/run.py, --node-rank with a static rendezvous), so that
neighbours in the plan are neighbours in the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping

from perfcast.search.handover.job import Job

LAUNCH_FILE, SLURM_FILE = "launch.sh", "job.sbatch"


def write_launch_files(
    job: Job, program: str, environment: Mapping[str, str] | None = None, before: str = ""
) -> dict[str, str]:
    """A shell script for one host, and a Slurm job that runs it on all.

    Args:
        program: What torchrun starts, with its arguments.
        environment: Variables of every rank.
        before: Lines of the shell that come first.
    """
    exports = "".join(f"export {name}={value}\n" for name, value in (environment or {}).items())
    return {
        LAUNCH_FILE: _LAUNCH.format(
            exports=exports, before=before, nodes=job.num_nodes, devices=job.devices_per_node, program=program
        ),
        SLURM_FILE: _SLURM.format(name=job.name, nodes=job.num_nodes, devices=job.devices_per_node),
    }


_LAUNCH = """\
#!/usr/bin/env bash
# Run on each of the {nodes} hosts, in this folder: NODE_RANK is the host's place, from 0, and MASTER_ADDR the
# name of host 0. Hosts that are close in the network should have neighbouring places.
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
