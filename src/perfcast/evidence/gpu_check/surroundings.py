"""What surrounds a part: nothing of the user's own that would move a figure, no network, its own folders."""

from __future__ import annotations

import os
from pathlib import Path

from perfcast.cost.profile import DATA_DIR_VARIABLE
from perfcast.workload.kept.store import FOLDER_VARIABLE

#: Settings of the allocator, under the names of all releases of PyTorch; the simulated one has none.
_ALLOCATOR = (
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_HIP_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "PYTORCH_NO_HIP_MEMORY_CACHING",
)
#: What makes every launch wait, or rounds products otherwise than asked for.
_DISTURBING = ("CUDA_LAUNCH_BLOCKING", "HIP_LAUNCH_BLOCKING", "AMD_SERIALIZE_KERNEL", "NVIDIA_TF32_OVERRIDE",
               "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE")  # fmt: skip
#: What else decides which device is used and how fast it is.
_TOLD = (
    "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "OMP_NUM_THREADS", "NCCL_ALGO", "NCCL_PROTO", "NCCL_P2P_DISABLE",
    "NCCL_NVLS_ENABLE", "CUBLAS_WORKSPACE_CONFIG", "TORCH_BLAS_PREFER_CUBLASLT",
    "TORCH_BLAS_PREFER_HIPBLASLT",
)  # fmt: skip


def environment_of_parts(folder: Path) -> dict[str, str]:
    """This process's, without the user's settings of allocator and launches.

    Measurements and corrections in the user's data folder do not count, so that a forecast is what anybody's
    would be; models are built from what is shipped, and nothing is asked of a network.
    """
    kept = {name: said for name, said in os.environ.items() if name not in (*_ALLOCATOR, *_DISTURBING)}
    own = folder.resolve()
    return kept | {
        DATA_DIR_VARIABLE: str(own / "data"), FOLDER_VARIABLE: str(own / "cache"),
        "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "PYTHONUNBUFFERED": "1",
    }  # fmt: skip


def told_of_environment() -> dict[str, dict[str, str]]:
    """Variables that decide figures: those that parts see, and those that were set and are kept from them."""
    return {
        "seen": {name: os.environ[name] for name in _TOLD if name in os.environ},
        "kept_from_parts": {
            name: os.environ[name] for name in (*_ALLOCATOR, *_DISTURBING) if name in os.environ
        },
    }
