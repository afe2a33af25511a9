"""Small inputs that the golden answers are about: models, tables, recordings."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from made_up_traces import document, event, execution_document, kernel, launch, node, tensor, write
from recorded_traces import Recording, two_kernels

EXAMPLES = Path(__file__).parents[2] / "examples"

MODELS: dict[str, dict[str, Any]] = {
    "gpt": {
        "model_type": "gpt2", "n_layer": 8, "n_embd": 256, "n_head": 8, "vocab_size": 2048,
        "n_positions": 512,
    },
    "llama": {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512,
        "intermediate_size": 1376, "num_hidden_layers": 8, "num_attention_heads": 8,
        "num_key_value_heads": 4, "vocab_size": 4096, "max_position_embeddings": 1024,
        "tie_word_embeddings": False,
    },
    "mixture": {
        "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 256,
        "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8,
        "num_key_value_heads": 4, "vocab_size": 2048, "max_position_embeddings": 1024,
        "num_local_experts": 8, "num_experts_per_tok": 2, "tie_word_embeddings": False,
    },
}  # fmt: skip

TABLES = """\
name,num_rows,dim,pooling
user,4000000,128,1
item,1200000,128,1
clicked,1200000,64,50
searched,80000,64,20
country,200,32,1
hour,24,16,1
"""

GEMMS = """\
dtype,m,n,k,sglang_ms,trtllm_ms,vllm_ms
bfloat16,256,4096,4096,0.05,0.06,0.07
bfloat16,4096,4096,4096,0.25,0.26,
fp8,4096,4096,4096,0.15,,0.17
"""

PAIRS_LOG = """\
# Collective test starting: all_reduce_perf
#  size count type redop root time algbw busbw #wrong time algbw busbw #wrong
"""


def write_inputs(folder: Path) -> Path:
    """All of them; commands name them with ``@`` before their name."""
    for name, config in MODELS.items():
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "tables.csv").write_text(TABLES, encoding="utf-8")
    shutil.copy(EXAMPLES / "tables.csv", folder / "example.csv")
    (folder / "measured").mkdir()
    (folder / "measured" / "gemm_h100_sxm.csv").write_text(GEMMS, encoding="utf-8")
    sizes = [(2**k, 20 + 2**k / 1e5) for k in range(10, 31, 2)]
    rows = "".join(
        f"{size} {size // 4} float sum -1 {us:.2f} {size / us / 1e3:.2f} {size / us / 1e3 * 1.5:.2f} 0 "
        f"{us:.2f} {size / us / 1e3:.2f} {size / us / 1e3 * 1.5:.2f} 0\n"
        for size, us in sizes
    )
    end = "# Avg bus bandwidth    : 86.5\n"
    (folder / "nccl.log").write_text(PAIRS_LOG + rows + end, encoding="utf-8")
    (folder / "topology.txt").write_text(
        "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-7\nGPU1\tNV4\t X \t0-7\n", encoding="utf-8"
    )
    two_kernels().write(folder, "before.json")
    trained_step(0).write(folder, "rank0.json")
    trained_step(1).write(folder, "rank1.json")
    _write_linked(folder)
    return folder


def _write_linked(folder: Path) -> None:
    """An execution trace of one operator, and the timeline of the same."""
    events = [
        event("ProfilerStep#4", 0, 5000, category="user_annotation"),
        event("aten::mm", 0, 100, Record_function_id=3, Input_Dims=[[2, 2]], Input_type=["float"]),
        launch(10, 5, 8),
        kernel("gemm", 200, 50, 8),
    ]
    write(
        folder / "nodes_timeline.json", document(events, deviceProperties=[{"id": 0, "name": "NVIDIA H100"}])
    )
    made = node(3, "aten::mm", outputs=[(tensor(5, 6, [256]), "Tensor(float)", [256])])
    write(folder / "nodes.json", execution_document([made]))


def trained_step(rank: int) -> Recording:
    """Two steps of one of two ranks: products, a copy, a collective that the later rank holds up, a wait."""
    recording = Recording(rank, world_size=2)
    for number, start in ((1, 0.0), (2, 400.0)):
        own = 10 * number
        recording.step(number, start, 380)
        recording.mark("forward", start + 5, 150)
        recording.operator(
            "aten::mm", start + 10, 60,
            Input_Dims=[[512, 1024], [1024, 2048]], Input_type=["c10::BFloat16", "c10::BFloat16"],
        )  # fmt: skip
        recording.call("cudaLaunchKernel", start + 20, 6, own + 1)
        recording.kernel("gemm_bf16", start + 40, 70 + 30 * rank, own + 1)
        recording.operator("aten::add", start + 80, 30, Input_Dims=[[512, 2048], [512, 2048]],
                           Input_type=["c10::BFloat16", "c10::BFloat16"])  # fmt: skip
        recording.call("cudaLaunchKernel", start + 90, 5, own + 2)
        recording.kernel("vectorized_add", start + 115 + 30 * rank, 12, own + 2)
        recording.operator("c10d::allreduce_", start + 130, 40)
        recording.call("cudaLaunchKernel", start + 140, 8, own + 3)
        recording.kernel(
            "ncclDevKernel_AllReduce_Sum_bf16", start + 150 + 10 * rank, 90 - 10 * rank, own + 3, stream=13,
            **{
                "Collective name": "allreduce", "In msg nelems": 1 << 20, "Out msg nelems": 1 << 20,
                "dtype": "BFloat16", "Group size": 2, "Process Group Name": "0",
                "Process Group Ranks": "[0, 1]", "In split size": "[]", "Out split size": "[]",
            },
        )  # fmt: skip
        recording.operator("aten::item", start + 260, 60)
        recording.call("cudaStreamSynchronize", start + 270, 40, own + 4)
    return recording
