"""Mixture of experts: routing, two grouped products with an activation between, and the weighted sum.

A rank holds num_experts / expert_parallel experts, each hidden → inter / tensor_parallel (twice, where gated)
→ hidden. Its time is that of the busiest rank's load (``routing``)::

    seconds = floor + hypot(weights, products) + activations

* weights: those of every touched expert are read once, from memory or, where the same weights are run over
  and over and fit, from the cache;
* products: rows padded to tiles, tiles in waves over the multiprocessors, each its multiply-adds and the
  loads of its operands; the height of the tile is the best of ``TILE_ROWS``;
* activations: written and read between the steps;
* floor: some ten short kernels in a row (sort, quantise, activate, sum), mostly latency, hence of the clock.

``operation`` is ``moe`` (gated, three matrices an expert) or ``moe_ungated`` (two); ``_cold`` behind either
says that other work has driven the weights out of the cache since the last call.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Flags, Floats, Objects
from perfcast.core.kernel import KernelFamily, KernelTable, encode_words
from perfcast.cost.learned.families.routing import TILE_ROWS, Routing, route
from perfcast.cost.learned.family import Physics
from perfcast.cost.learned.figures import Figures

family = KernelFamily.EXPERTS

feature_names = (
    "products_over_weights", "total_over_floor", "activation_share", "rows_per_expert", "largest_over_mean",
    "tile_fill", "blocks_per_sm", "touched_share", "slots_over_rows", "tokens_over_rows", "hidden", "inter",
    "experts", "experts_per_token", "format", "framework", "unit_width",
)  # fmt: skip

#: Bits of a stored weight with its share of the block's scales, and bits of an activation that enters a
#: product. The order is the format's code among the features: formats with like kernels are neighbours.
FORMATS: dict[str, tuple[float, float]] = {
    "fp32": (32.0, 32.0), "tf32": (32.0, 32.0), "fp16": (16.0, 16.0), "bf16": (16.0, 16.0),
    "int8": (8.0, 8.0), "sq": (8.0, 8.0), "fp8": (8.0, 8.0), "fp8_static": (8.0, 8.0),
    "fp8_token": (8.0, 8.0), "fp8_block": (8.0, 8.25), "nvfp4": (4.5, 4.5), "mxfp4": (4.25, 4.25),
    "w4a8_mxfp4_mxfp8": (4.25, 8.25),
    "w4afp8": (4.125, 8.0), "int8_wo": (8.0, 16.0), "int4_wo": (4.125, 16.0), "w4a16_mxfp4": (4.25, 16.0),
}  # fmt: skip

#: Fitted: least mean of |log(measured / seconds)| over CUDA-graph timings of sglang and TensorRT-LLM on A100,
#: H100, H200, L40S, B200 and GB200, each architecture weighing the same, by Powell's method; without
#: w4a16_mxfp4 and models that sglang ran in a single version. The errors are 0.14, 0.24, 0.16, 0.28 (Ampere,
#: Hopper, Ada, Blackwell). A fit without an architecture moves that one's by less than 0.004, except Ada's,
#: to 0.23: only its large cache shows what weights found there are worth.
FLOOR_SECONDS = 33e-6
MEMORY_EFFICIENCY = 0.81
CACHE_SHARE = 0.89
MATRIX_EFFICIENCY = 0.74
LOAD_BYTES_PER_CYCLE = 78.0
TILE_OVERHEAD_ROWS = 6.3
TILE_OVERHEAD_DEPTH = 120.0
LEAST_WAVE = 0.25
ACTIVATION_PASSES = 1.05
ACTIVATION_CACHE_SHARE = 0.47

#: Clock at which ``FLOOR_SECONDS`` holds, and the power of the clock with which the floor falls.
_FLOOR_CLOCK_HERTZ = 2e9
_FLOOR_POWER = 0.9
#: How sharply residence ends when the weights outgrow the cache.
_CACHE_POWER = 8.0
#: No multiprocessor takes more than a 128-byte line from the cache in a cycle.
_LOAD_PEAK_BYTES_PER_CYCLE = 128.0
_TILE_COLUMNS = 128
#: Kernels that widen 4-bit weights in registers use the warp's matrix instruction, which has stayed at 1024
#: multiply-adds of 16 bits in a cycle of a multiprocessor since NVIDIA's A100 (A100 whitepaper).
_WARP_FLOPS_PER_CYCLE = 2048.0

_FRAMEWORKS = ("sglang", "trtllm", "vllm", "aiter")
#: Formats whose kernels in sglang run all slots of a token that has one local expert, remote slots too.
_ALL_SLOTS = ("bf16", "fp16", "fp8_block", "int4_wo")
#: Formats whose activations in vLLM are computed for all slots of all tokens.
_WHOLE_BUFFERS = ("bf16", "fp16", "fp8", "fp8_block", "int4_wo")
_OPERATIONS = ("moe", "moe_ungated", "moe_cold", "moe_ungated_cold")


@dataclass(frozen=True)
class ExpertWork:
    """What the busiest rank does, shape [n] each.

    Attributes:
        routing: Its load.
        slots: Rows that the products run: ``routing.rows``, and remote slots where the framework runs them.
        inter: Width of an expert's part on this rank.
        up_width: Columns of the first product: 2 · inter where gated.
        weight_bytes: Of touched experts, scales included.
        activation_bytes: Read and written between the steps.
        flops: Of ``routing.rows`` rows.
    """

    routing: Routing
    slots: Floats
    inter: Floats
    up_width: Floats
    weight_bytes: Floats
    activation_bytes: Floats
    flops: Floats


@dataclass(frozen=True)
class Steps:
    """Seconds of the parts of a call, shape [n] each.

    Attributes:
        total: All of it.
        floor, weights, products, activations: As above.
        blocks_per_sm: Tiles of the first product per multiprocessor.
    """

    total: Floats
    floor: Floats
    weights: Floats
    products: Floats
    activations: Floats
    blocks_per_sm: Floats


def describe(kernels: KernelTable, figures: Figures) -> Physics:
    """Physics and features of each call.

    Raises:
        ValueError: A format, operation or distribution that is not known.
    """
    work = count_work(kernels)
    steps = price_steps(kernels, figures, work)
    compute_seconds = work.flops / figures.matrix_flops_per_second
    beyond_cache = work.weight_bytes - np.where(_is_cold(kernels), 0.0, figures.l2_bytes)
    cache_rate = figures.num_sms * figures.clock_hertz * _LOAD_PEAK_BYTES_PER_CYCLE
    memory_seconds = np.maximum(
        beyond_cache / figures.memory_bytes_per_second, work.weight_bytes / cache_rate
    )
    return Physics(
        seconds=np.maximum(steps.total, np.maximum(compute_seconds, memory_seconds)),
        compute_seconds=compute_seconds,
        memory_seconds=memory_seconds,
        features=_features(kernels, figures, work, steps),
    )


def count_work(kernels: KernelTable) -> ExpertWork:
    """Rows, bytes and flops of each call.

    An activation is 16 bits between the steps and of the format's width where it enters a product: the first
    product's input and output, the second one's, and what the sum reads and writes.
    """
    routing = route(
        kernels.size("num_tokens"),
        kernels.size("experts_per_token"),
        kernels.size("num_experts"),
        kernels.size("expert_parallel"),
        kernels.word("distribution"),
    )
    weight_bits, activation_bits, _ = _format_columns(kernels)
    hidden = kernels.size("hidden_size")
    inter = kernels.size("inter_size") / kernels.size("tensor_parallel")
    up_width = inter * np.where(_is_gated(kernels), 2.0, 1.0)
    elements = hidden * (up_width + inter)
    slots = _executed_rows(kernels, routing)
    per_row = 4.0 * up_width + activation_bits / 4.0 * inter + (activation_bits / 8.0 + 4.0) * hidden
    return ExpertWork(
        routing=routing,
        slots=slots,
        inter=inter,
        up_width=up_width,
        weight_bytes=routing.touched * elements * weight_bits / 8.0,
        activation_bytes=_handled_rows(kernels, slots) * per_row + kernels.size("num_tokens") * hidden * 4.0,
        flops=2.0 * routing.rows * elements,
    )


def price_steps(kernels: KernelTable, figures: Figures, work: ExpertWork) -> Steps:
    """Seconds of each part of each call."""
    memory_rate = figures.memory_bytes_per_second * MEMORY_EFFICIENCY
    cache_rate = figures.num_sms * figures.clock_hertz * LOAD_BYTES_PER_CYCLE
    filled = work.weight_bytes / (CACHE_SHARE * figures.l2_bytes)
    resident = np.where(_is_cold(kernels), 0.0, 1.0 / (1.0 + filled**_CACHE_POWER))
    weights = work.weight_bytes * ((1.0 - resident) / memory_rate + resident / cache_rate)
    moved = ACTIVATION_PASSES * work.activation_bytes
    held = 1.0 / (1.0 + work.activation_bytes / (ACTIVATION_CACHE_SHARE * figures.l2_bytes))
    activations = moved * ((1.0 - held) / memory_rate + held / cache_rate)
    floor = FLOOR_SECONDS * (_FLOOR_CLOCK_HERTZ / figures.clock_hertz) ** _FLOOR_POWER
    blocks_per_sm, products = _price_products(kernels, figures, work)
    return Steps(
        total=floor + np.hypot(weights, products) + activations,
        floor=floor,
        weights=weights,
        products=products,
        activations=activations,
        blocks_per_sm=blocks_per_sm,
    )


def _price_products(kernels: KernelTable, figures: Figures, work: ExpertWork) -> tuple[Floats, Floats]:
    """Tiles per multiprocessor of the first product, and seconds of both, with the best height of tile.

    A tile of h rows and 128 columns takes, for each step of depth, its multiply-adds and its operands' bytes
    in turn; products of few tiles split the depth, down to ``LEAST_WAVE`` of a wave.
    """
    weight_bits, activation_bits, _ = _format_columns(kernels)
    sm_rate = _attainable_peak(kernels, figures) / figures.num_sms * MATRIX_EFFICIENCY
    load_rate = figures.clock_hertz * LOAD_BYTES_PER_CYCLE
    remote = work.slots - work.routing.rows
    hidden = kernels.size("hidden_size")
    seconds, blocks = [], []
    for index, height in enumerate(TILE_ROWS):
        row_blocks = (work.routing.tiles[:, index] + remote / height) / figures.num_sms
        step = 2.0 * (height + TILE_OVERHEAD_ROWS) * _TILE_COLUMNS / sm_rate
        step = step + (height * activation_bits + _TILE_COLUMNS * weight_bits) / 8.0 / load_rate
        up = row_blocks * np.ceil(work.up_width / _TILE_COLUMNS)
        down = row_blocks * np.ceil(hidden / _TILE_COLUMNS)
        up_steps = np.maximum(up, LEAST_WAVE) * (hidden + TILE_OVERHEAD_DEPTH)
        down_steps = np.maximum(down, LEAST_WAVE) * (work.inter + TILE_OVERHEAD_DEPTH)
        seconds.append(step * (up_steps + down_steps))
        blocks.append(up)
    options = np.stack(seconds)
    best = options.argmin(axis=0)[None]
    return np.take_along_axis(np.stack(blocks), best, axis=0)[0], options.min(axis=0)


def _attainable_peak(kernels: KernelTable, figures: Figures) -> Floats:
    """Peak of the instructions that the format's kernels use."""
    weight_bits, activation_bits, _ = _format_columns(kernels)
    warp_peak = figures.num_sms * figures.clock_hertz * _WARP_FLOPS_PER_CYCLE
    peak = figures.matrix_flops_per_second
    return np.where((weight_bits < 8.0) & (activation_bits == 16.0), np.minimum(peak, warp_peak), peak)


def _executed_rows(kernels: KernelTable, routing: Routing) -> Floats:
    runs_all = (kernels.word("framework") == "sglang") & np.isin(
        kernels.word("dtype").astype(str), _ALL_SLOTS
    )
    slots = np.maximum(routing.tokens * kernels.size("experts_per_token"), routing.rows)
    return np.where(runs_all, slots, routing.rows)


def _handled_rows(kernels: KernelTable, slots: Floats) -> Floats:
    """Rows that pass between the products; vLLM's buffers have one for every slot of every token."""
    whole = (kernels.word("framework") == "vllm") & np.isin(kernels.word("dtype").astype(str), _WHOLE_BUFFERS)
    return np.where(whole, kernels.size("num_tokens") * kernels.size("experts_per_token"), slots)


def _features(kernels: KernelTable, figures: Figures, work: ExpertWork, steps: Steps) -> Floats:
    routing = work.routing
    local = np.floor(kernels.size("num_experts") / kernels.size("expert_parallel"))
    columns = (
        np.log(steps.products / steps.weights),
        np.log(steps.total / steps.floor),
        np.log(steps.activations / steps.total),
        np.log(routing.rows / routing.touched),
        np.log(routing.largest * routing.touched / routing.rows),
        np.log(routing.rows / (routing.tiles[:, 1] * TILE_ROWS[1])),
        np.log(steps.blocks_per_sm),
        np.log(routing.touched / local),
        np.log(work.slots / routing.rows),
        np.log(kernels.size("num_tokens") / routing.rows),
        np.log(kernels.size("hidden_size")),
        np.log(work.inter),
        np.log(kernels.size("num_experts")),
        np.log(kernels.size("experts_per_token")),
        _format_columns(kernels)[2],
        _framework_code(kernels.word("framework")),
        np.log(figures.matrix_flops_per_second / (figures.num_sms * figures.clock_hertz)),
    )
    return np.stack(columns, axis=1)


def _format_columns(kernels: KernelTable) -> tuple[Floats, Floats, Floats]:
    """Bits of a weight, bits of an activation, code of the format."""
    names, which = encode_words(kernels.word("dtype"))
    unknown = sorted(set(names) - FORMATS.keys())
    if unknown:
        raise ValueError(f"experts: unknown format {', '.join(unknown)}; known are {', '.join(FORMATS)}")
    order = list(FORMATS)
    table = np.array([(*FORMATS[name], order.index(name)) for name in names], dtype=np.float64)
    weight, activation, code = table.reshape(-1, 3)[which].T
    return weight, activation, code


def _framework_code(frameworks: Objects) -> Floats:
    code = np.full(len(frameworks), float(len(_FRAMEWORKS)))
    for index, name in enumerate(_FRAMEWORKS):
        code[frameworks == name] = index
    return code


def _is_gated(kernels: KernelTable) -> Flags:
    words = kernels.word("operation").astype(str)
    unknown = sorted(set(words.tolist()) - set(_OPERATIONS))
    if unknown:
        raise ValueError(
            f"experts: unknown operation {', '.join(unknown)}; known are {', '.join(_OPERATIONS)}"
        )
    return ~np.char.startswith(words, "moe_ungated")


def _is_cold(kernels: KernelTable) -> Flags:
    return np.char.endswith(kernels.word("operation").astype(str), "_cold")
