"""Other trainings, and more devices, that would fit; each is what the footprint says of it."""

from __future__ import annotations

from builders import made_up_device
from perfcast.catalogs.devices import load_device
from perfcast.core.forecast.recommendation import PlanRecommendation
from perfcast.core.machine.cluster import Cluster, Level, Link
from perfcast.core.machine.hardware import Device
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.core.tuning.text import parse_tuning
from perfcast.cost.roofline import Roofline
from perfcast.memory_use.footprint import estimate_footprint
from perfcast.prediction.model import read_model
from perfcast.prediction.recommendations.others import find_other_recommendations
from perfcast.units import MIB
from small_transformers import llama

LLAMA = read_model("llama3-8b").sizes
FSDP = Training(framework="fsdp")


def others(
    device: Device,
    training: Training = FSDP,
    plan: Plan | None = None,
    model: Transformer = LLAMA,
    length: int = 2048,
    *,
    is_timed: bool = False,
) -> dict[str, PlanRecommendation]:
    def cluster_of(plan: Plan) -> Cluster:
        levels = (Level("node", plan.world_size, Link("nvlink4", 1e-6, 1e11)),)
        return Cluster("server", "devices", device.name, levels)

    found = find_other_recommendations(
        model, plan or Plan(), training, length, device,
        cluster_of=cluster_of if is_timed else lambda plan: None,
        cost_model=Roofline() if is_timed else None,
    )  # fmt: skip
    return {", ".join(one.changes): one for one in found}


def test_an_8b_model_on_one_80_gb_device_fits_by_adapters_or_on_more_devices():
    found = others(load_device("h100-sxm"))
    assert found["--lora rank=16,targets=all-linear"].fits
    assert found["--qlora rank=16,targets=all-linear"].fits
    assert not found["optimizer=adamw_8bit"].fits
    more = [one for change, one in found.items() if "devices:" in change]
    assert more
    assert all(one.fits and one.plan.world_size == more[0].plan.world_size for one in more)


def test_the_devices_are_the_fewest_of_the_doublings():
    device = load_device("h100-sxm")
    (count,) = {one.plan.world_size for change, one in others(device).items() if "devices:" in change}
    fewer = Plan(data_parallel=count // 2, zero_stage=3)
    held = estimate_footprint(LLAMA, fewer, FSDP, 2048, device=device).device_bytes
    assert held > device.memory_bytes


def test_each_needs_what_the_footprint_says_and_less_than_what_was_asked():
    device = load_device("h100-sxm")
    asked = estimate_footprint(LLAMA, Plan(), FSDP, 2048, device=device).device_bytes
    for one in others(device).values():
        assert one.training is not None
        assert one.sequence_length is not None
        held = estimate_footprint(LLAMA, one.plan, one.training, one.sequence_length, device=device)
        assert one.device_bytes == held.device_bytes < asked
        assert one.fits is (held.device_bytes <= device.memory_bytes)


def test_the_sequence_is_the_longest_that_fits():
    model, plan = llama(), Plan(micro_batch_size=8)
    at = estimate_footprint(model, plan, FSDP, 2048, device=made_up_device()).device_bytes
    device = made_up_device(memory_bytes=at)
    (change,) = [c for c in others(device, plan=plan, model=model, length=4096) if "--sequence-length" in c]
    assert change == "--sequence-length 2048"


def test_another_training_says_so_and_the_same_on_more_devices_does_not():
    found = others(load_device("h100-sxm"), plan=Plan(num_micro_batches=64))
    assert "adapters alone" in found["--lora rank=16,targets=all-linear"].caveat
    assert "8 bits" in found["optimizer=adamw_8bit"].caveat
    more = [one for change, one in found.items() if "devices:" in change]
    assert more
    assert all(one.plan.global_batch_size == 64 and not one.caveat for one in more)


def test_the_cost_is_the_time_of_the_step_and_the_rate_that_of_all_devices():
    found = others(load_device("h100-sxm"), is_timed=True)
    lora, qlora = (found[f"--{kind} rank=16,targets=all-linear"] for kind in ("lora", "qlora"))
    assert lora.extra_seconds is not None
    assert lora.extra_seconds < 0
    assert lora.tokens_per_second is not None
    assert qlora.tokens_per_second is not None
    assert qlora.tokens_per_second < lora.tokens_per_second


def test_what_trains_adapters_already_is_offered_four_bits_and_a_framework_without_them_nothing():
    device = load_device("rtx-a6000")
    tuned = Training(framework="fsdp", tuning=parse_tuning(lora="rank=8,targets=q+v"))
    assert "--qlora rank=8,targets=q+v" in others(device, tuned)
    assert not any("lora" in change for change in others(device, Training(framework="nanotron")))


def test_what_fits_is_offered_no_more_devices_and_no_shorter_sequence():
    found = others(made_up_device(memory_bytes=10**6 * MIB), model=llama(), length=256)
    assert not any("devices" in change or "sequence" in change for change in found)
