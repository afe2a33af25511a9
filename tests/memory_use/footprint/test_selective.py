"""What 'selective' keeps is the framework's: the core of attention dropped, or every second product kept."""

from __future__ import annotations

import pytest

from perfcast.core.model.transformer import Experts, LatentAttention, Transformer
from perfcast.core.operation import OperationKind
from perfcast.core.plan import Plan, RecomputeModule
from perfcast.core.training import Training, TrainingFramework
from perfcast.frameworks.load import load_training_profile
from perfcast.memory_use.footprint.activations import Saved, lay_out, layer_bytes
from perfcast.memory_use.footprint.selective import made_again_bytes, saved_tensors
from perfcast.workload.blocks.layer.training import layer_backward, layer_forward
from perfcast.workload.blocks.local import Local
from small_transformers import gpt, llama

S = 128
SELECTIVE, NONE = Plan(recompute="selective"), Plan()


def kept(
    model: Transformer, plan: Plan = SELECTIVE, framework: TrainingFramework = "torchtitan"
) -> tuple[Saved, ...]:
    training = Training(framework=framework)
    layout = lay_out(plan, training, S)
    profile = load_training_profile(framework)
    return saved_tensors(model, plan, training, profile, layout, has_experts=False)


def test_torchtitan_keeps_input_attention_and_every_second_product():
    """Of queries, keys, values, output, gate, up and down: the first, third, fifth and seventh."""
    model = llama()
    hidden, width = model.hidden_size, model.ffn_hidden_size
    values = model.num_kv_heads * model.head_size
    rows = 2 * S * (hidden + hidden + values + width + hidden + hidden)
    statistics = 4 * S * model.num_attention_heads
    assert layer_bytes(kept(model)) == rows + statistics


def test_megatron_drops_no_more_than_the_core_of_attention():
    dropped = set(kept(llama(), NONE, "megatron")) - set(kept(llama(), SELECTIVE, "megatron"))
    assert {tensor.name for tensor in dropped} == {"row statistics of attention"}


def test_what_is_scattered_along_the_sequence_is_kept_with_the_products_before_it():
    plan = Plan(tensor_parallel=2, sequence_parallel=True, recompute="selective")
    found = {tensor.name: tensor.num_bytes for tensor in kept(llama(), plan)}
    hidden = llama().hidden_size
    assert found["product behind the MLP"] == 2 * S * hidden
    assert found["what the MLP reduced and scattered"] == S * hidden


def test_a_backward_has_all_tensors_again():
    every = kept(llama(), NONE)
    read = sum(
        min(tensor.num_bytes, sum(other.num_bytes for other in every if other.name == tensor.name))
        for tensor in kept(llama())
    )
    assert made_again_bytes(kept(llama()), every) == layer_bytes(every) - read


@pytest.mark.parametrize("model", [llama(), gpt(has_dropout=False)], ids=["llama", "gpt"])
def test_time_and_memory_keep_the_same_products(model: Transformer):
    """The products that the backward runs again write what memory does not keep."""
    plain = Local(model, NONE, Training(framework="torchtitan"), S)
    selective = Local(model, SELECTIVE, Training(framework="torchtitan"), S)
    forward = [call for call in layer_forward(plain, False) if call.operation.kind is OperationKind.MATMUL]
    again = [call.operation for call in layer_backward(selective, False) if call.is_recomputed]
    products = [operation for operation in again if operation.kind is OperationKind.MATMUL]
    assert products == [call.operation for call in forward[1::2]]
    assert not any(operation.kind is OperationKind.ATTENTION for operation in again)
    written = sum(out.num_bytes for call in forward[::2] for out in call.operation.outputs)
    unwritten = ("input of the attention norm", "output of attention", "row statistics of attention")
    assert written == sum(each.num_bytes for each in kept(model) if each.name not in unwritten)


# ---- named modules -------------------------------------------------------------------------------------

DEEPSEEK = llama(
    num_kv_heads=4,
    experts=Experts(8, 2, 96, shared_ffn_hidden_size=96),
    latent_attention=LatentAttention(24, 16, 16, 8, 16),
)
MODULES = ("core_attn", "layernorm", "mla_up_proj", "moe_act", "shared_experts", "mlp", "moe")


def named(
    *modules: RecomputeModule, framework: TrainingFramework = "megatron", dtype: str = "bf16"
) -> dict[str, int]:
    """Bytes that a layer of experts with latent attention keeps, by tensor."""
    plan = Plan(recompute="selective", recompute_modules=modules) if modules else Plan()
    training = Training(framework=framework, dtype=dtype)  # type: ignore[arg-type]
    saved = saved_tensors(
        DEEPSEEK,
        plan,
        training,
        load_training_profile(framework),
        lay_out(plan, training, S),
        has_experts=True,
    )
    return {tensor.name: tensor.num_bytes for tensor in saved}


@pytest.mark.parametrize(
    ("module", "gone"),
    [
        ("core_attn", {"row statistics of attention"}),
        ("layernorm", {"input of attention", "input of router and experts"}),
        ("moe_act", {"input of experts down"}),
        ("shared_experts", {"input of the shared experts' activation", "input of shared experts down"}),
    ],
)
def test_a_named_module_gives_up_what_it_makes(module: RecomputeModule, gone: set[str]):
    assert named().keys() - named(module).keys() == gone


def test_up_projections_of_latent_attention_leave_what_stands_before_their_norms():
    whole, kept = named(), named("mla_up_proj")
    assert whole.keys() - kept.keys() >= {"queries", "keys", "values"}
    both, before = "compressed queries before and after their norm", "compressed queries before their norm"
    assert 2 * kept[before] == whole[both]


def test_experts_as_a_whole_leave_their_input():
    kept = named("moe")
    assert not [name for name in kept if "experts" in name and name != "input of router and experts"]


def test_whoever_always_recomputes_does_so_whatever_the_plan_says():
    bf16, fp8 = named(framework="hai_llm"), named(framework="hai_llm", dtype="fp8")
    assert not bf16.keys() & {"queries", "input of attention", "input of experts down"}
    assert 2 * fp8["input of the experts' activation"] == bf16["input of the experts' activation"]
    assert "output of attention in fp8" in named(dtype="fp8").keys() - fp8.keys()


@pytest.mark.parametrize("module", MODULES)
def test_a_named_module_runs_again_in_the_backward(module: RecomputeModule):
    plan = Plan(recompute="selective", recompute_modules=(module,))
    forward = layer_forward(Local(DEEPSEEK, Plan(), Training(framework="megatron"), S), True)
    back = layer_backward(Local(DEEPSEEK, plan, Training(framework="megatron"), S), True)
    again = [call for call in back if call.is_recomputed]
    assert {call.operation for call in again} <= {call.operation for call in forward}
    assert bool(again) == (module != "mlp")  # experts stand in its place
    if module == "moe":
        assert {call.module for call in again} >= {"experts.up", "experts.down", "experts.router"}
    if module == "mla_up_proj":
        products = [call for call in again if call.operation.kind is OperationKind.MATMUL]
        assert [call.module for call in products] == ["attention.queries", "attention.keys_values"]


def test_a_norm_in_steps_keeps_its_input_in_fp32_and_its_rows_before_the_weight():
    rows = 2 * S * llama().hidden_size
    found = {tensor.name: tensor.num_bytes for tensor in kept(llama(), NONE)}
    assert found["input of the MLP norm"] == 2 * rows
    assert found["input of the MLP norm, normed"] == rows
    assert "input of the MLP norm, normed" not in {each.name for each in kept(llama(), NONE, "megatron")}
