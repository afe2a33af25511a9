"""A DynamoGraphDeployment: the pools of a deployment behind one door on Kubernetes.

Fields after ai-dynamo/dynamo (examples/backends/vllm/deploy/disagg-multinode.yaml, apiVersion v1alpha1);
workers' options after its components/src/dynamo/{vllm,sglang,trtllm}: those of the framework itself, and
--disaggregation-mode of Dynamo 1.0 and later.
"""

from __future__ import annotations

import json

from perfcast.searches.handover.serving import sglang, trtllm, vllm
from perfcast.searches.handover.serving.job import Servers, ServingJob, servers_of
from perfcast.searches.handover.serving.script import Arguments, Node, words_of, write_yaml

DYNAMO_FILE = "dynamo.yaml"
_IMAGES = {"vllm": "vllm-runtime", "sglang": "sglang-runtime", "trtllm": "tensorrtllm-runtime"}
_VERSION, _DOOR = "1.0.0", 8000
_NOTE = (
    "For the operator of Dynamo 1.0 (kubectl apply -f). Yours to change: image, and the secret with the "
    "token of Hugging Face"
)


def write_files(job: ServingJob) -> dict[str, str]:
    """One file."""
    image = f"nvcr.io/nvidia/ai-dynamo/{_IMAGES[job.framework]}:{_VERSION}"
    door: dict[str, Node] = {
        "componentType": "frontend",
        "replicas": 1,
        "extraPodSpec": _container(image, "frontend", (("--http-port", str(_DOOR)),)),
    }
    services: dict[str, Node] = {"Frontend": door}
    for servers in servers_of(job, _DOOR):
        services[servers.name] = _worker(job, servers, image)
    return {
        DYNAMO_FILE: write_yaml(
            {
                "apiVersion": "nvidia.com/v1alpha1",
                "kind": "DynamoGraphDeployment",
                "metadata": {"name": "perfcast"},
                "spec": {"services": services},
            },
            [_NOTE],
        )
    }


def _worker(job: ServingJob, servers: Servers, image: str) -> dict[str, Node]:
    worker: dict[str, Node] = {"componentType": "worker"}
    if servers.role != "both":
        worker["subComponentType"] = servers.role
    worker |= {"replicas": servers.pool.replicas, "envFromSecret": "hf-token-secret"}
    if servers.nodes_per_replica > 1:
        worker["multinode"] = {"nodeCount": servers.nodes_per_replica}
    devices = min(servers.plan.world_size, job.devices_per_node)
    worker["resources"] = {"limits": {"gpu": str(devices)}}
    worker["extraPodSpec"] = _container(image, job.framework, worker_arguments(job, servers))
    return worker


def worker_arguments(job: ServingJob, servers: Servers) -> Arguments:
    """What one worker is started with."""
    role, plan = servers.role, servers.plan
    mode: Arguments = (("--disaggregation-mode", role),) if role != "both" else ()
    if job.framework == "vllm":
        return (("--model", job.model), *mode, *vllm.engine_arguments(job, role, plan))
    if job.framework == "sglang":
        return (("--model-path", job.model), *sglang.engine_arguments(job, role, plan))
    settings = json.dumps(trtllm.engine_settings(job, role, plan))
    return (("--model-path", job.model), *mode, ("--override-engine-args", settings))


def _container(image: str, module: str, arguments: Arguments) -> dict[str, Node]:
    return {
        "mainContainer": {
            "image": image,
            "command": ["python3", "-m", f"dynamo.{module}"],
            "args": words_of(arguments),
        }
    }
