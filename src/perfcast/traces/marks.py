"""Names that PyTorch gives to what is no operator: marks of steps, the process, its threads, gloo's work."""

from __future__ import annotations

#: Beginning of the name of a marked step; its number follows ('ProfilerStep#3').
STEP_MARK = "ProfilerStep"
#: The node of an execution trace that lists the process groups.
GROUPS_NODE = "## process_group:init ##"
#: Beginning of the names of what gloo's threads carry out.
GLOO = "gloo:"
#: Beginnings of the names of ranges in which a library of collectives is asked (``nccl:all_to_all``).
ASKING = ("nccl:", "rccl:", "ucc:", "mpi:", "xccl:", "hccl:")
#: The operator that records what NCCL is asked for.
COLLECTIVE_RECORD = "record_param_comms"
#: End of the names of operators that wait for what was asked for (``_c10d_functional::wait_tensor``).
WAIT = "c10d_functional::wait_tensor"
#: Beginning of the name of the range in which a graph that torch.compile made runs; its hash follows.
COMPILED_GRAPH = "## Call CompiledFxGraph"
_ROOT = "[pytorch|profiler|execution_"


def is_root_name(name: str) -> bool:
    """Whether a node of this name stands for the process or a thread, not for anything that ran."""
    return name.startswith(_ROOT)
