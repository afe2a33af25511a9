"""How servers are started: one script a pool, run on each of its hosts; and small YAML.

A replica that spans hosts is started on each of them, with NODE_RANK and HEAD telling its place.
"""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Mapping, Sequence

from perfcast.searches.handover.serving.job import Servers, ServingJob

#: Names with their values; None: a switch.
Arguments = tuple[tuple[str, str | None], ...]
#: What YAML files here hold.
Node = str | int | float | bool | None | Sequence["Node"] | Mapping[str, "Node"]
_WIDTH = 108
_INDENT = "        "


def words_of(arguments: Arguments) -> list[str]:
    """As a program gets them."""
    return [word for pair in arguments for word in pair if word is not None]


def write_script(
    job: ServingJob,
    servers: Servers,
    program: str,
    arguments: Arguments,
    *,
    computed: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    before: str = "",
    notes: Sequence[str] = (),
) -> str:
    """A script that starts the replicas of one host.

    Args:
        program: With what comes before the arguments, as the shell reads it.
        arguments: Written as they are, in quotes where needed.
        computed: Further words that the shell works out, of REPLICA, NODE_RANK, HEAD and PORT.
        environment: Variables of every replica, which the shell may work out.
        before: Lines of the shell that come first.
        notes: What the user has to know, in words without a full stop.
    """
    lines = [f"{name} {shlex.quote(value)}" if value is not None else name for name, value in arguments]
    command = f" \\\n{_INDENT}".join([program, *lines, *computed])
    exports = "".join(f'{_INDENT}{name}="{value}" \\\n' for name, value in (environment or {}).items())
    devices = min(servers.plan.world_size, job.devices_per_node)
    return _SCRIPT.format(
        notes=_comments(_placement(servers), *notes),
        replicas=servers.replicas_per_node,
        spans=(_SPANS if servers.nodes_per_replica > 1 else "") + before,
        port=servers.first_port,
        stride=PORT_STRIDE,
        devices=devices,
        exports=exports,
        command=command,
    )


#: Ports of neighbouring servers lie so far apart: programs take some beside the one that they are given.
PORT_STRIDE = 500


def _placement(servers: Servers) -> str:
    plan, pool = servers.plan, servers.pool
    whole = f"{pool.replicas} replica{'s' if pool.replicas > 1 else ''} of {plan.world_size} devices"
    what = f"{whole} (tp={plan.tensor_parallel} · pp={plan.pipeline_parallel} · dp={plan.data_parallel})"
    if servers.nodes_per_replica > 1:
        return (
            f"{what}, each on {servers.nodes_per_replica} hosts: run on each of them, NODE_RANK its place, "
            "from 0, and HEAD the address of place 0"
        )
    rest = pool.replicas % servers.replicas_per_node
    several = f"each of {servers.num_nodes} hosts" if servers.num_nodes > 1 else "one host"
    hosts = f"{what}: run on {several}"
    return f"{hosts}; REPLICAS={rest} on the last" if rest else hosts


def _comments(*notes: str) -> str:
    lines = [line for note in notes for line in textwrap.wrap(f"{note}.", _WIDTH, break_on_hyphens=False)]
    return "".join(f"# {line}\n" for line in lines)


_SPANS = 'NODE_RANK="${NODE_RANK:-0}"\nHEAD="${HEAD:-localhost}"\n'
_SCRIPT = """\
#!/usr/bin/env bash
{notes}set -euo pipefail
REPLICAS="${{REPLICAS:-{replicas}}}"
{spans}for ((REPLICA = 0; REPLICA < REPLICAS; REPLICA++)); do
    PORT=$(({port} + {stride} * REPLICA))
    CUDA_VISIBLE_DEVICES=$(seq -s , $((REPLICA * {devices})) $((REPLICA * {devices} + {devices} - 1))) \\
{exports}        {command} &
done
wait
"""


def write_yaml(node: Mapping[str, Node], notes: Sequence[str] = ()) -> str:
    """Block style; scalars are written in YAML as in JSON (YAML 1.2, section 10.2)."""
    return _comments(*notes) + "\n".join([*_yaml_lines(node, 0), ""])


def _yaml_lines(node: Node, depth: int) -> list[str]:
    pad = "  " * depth
    if isinstance(node, Mapping):
        return [line for key, value in node.items() for line in _entry(f"{pad}{key}:", value, depth)]
    if isinstance(node, Sequence) and not isinstance(node, str):
        return [line for value in node for line in _entry(f"{pad}-", value, depth)]
    raise TypeError(f"{node!r} has no entries")


def _entry(head: str, value: Node, depth: int) -> list[str]:
    is_nested = isinstance(value, Mapping | Sequence) and not isinstance(value, str) and len(value) > 0
    return [head, *_yaml_lines(value, depth + 1)] if is_nested else [f"{head} {json.dumps(value)}"]
