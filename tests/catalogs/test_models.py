from __future__ import annotations

import pytest
import torch

from perfcast.catalogs.models import TASKS, ModelEntry, load_model, load_models
from perfcast.errors import UnknownNameError
from perfcast.workload.models.huggingface import build_program
from perfcast.workload.recommender.model import build_dlrm_program
from perfcast.workload.shape import StepShape

ENTRIES = load_models()
REQUIRED = """
    gpt2 gpt2-medium gpt2-large gpt2-xl gpt3-xl gpt3-2.7b gpt3-6.7b gpt3-13b gpt3-175b
    bert-base bert-large opt-125m opt-1.3b opt-13b opt-66b
    llama2-7b llama2-13b llama2-70b llama3-8b llama3-70b llama3.1-8b llama3.1-70b llama3.1-405b llama3.2-1b
    mistral-7b mixtral-8x7b mixtral-8x22b deepseek-v3 qwen2.5-7b qwen3-8b qwen3-30b-a3b
    gemma-2b gemma2-9b gemma3-1b
    t5-small t5-base t5-large t5-3b t5-11b switch-base-8 vit-b-16 vit-l-16 resnet-50
    dlrm-mlperf dlrm-dcnv2 dlrm-small
    megatron-22b megatron-175b megatron-530b megatron-1t neusight-gpt3-xl
    neusight-gpt2-large neusight-bert-large
""".split()

every_entry = pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)


def test_there_are_at_least_forty_models():
    assert len(ENTRIES) >= 40


@pytest.mark.parametrize("name", REQUIRED)
def test_a_model_that_people_ask_for_is_there_under_its_name(name: str):
    assert load_model(name).name == name


@every_entry
def test_every_model_states_its_source_its_task_and_how_many_parameters(entry: ModelEntry):
    assert len(entry.source) > 15
    assert entry.task in TASKS
    assert entry.parameters.value > 0
    assert len(entry.parameters.source) > 15
    assert entry.config


@every_entry
def test_only_models_that_read_sequences_have_a_length(entry: ModelEntry):
    assert (entry.sequence_length is None) == (entry.task in ("image-classification", "recommendation"))


def test_another_checkpoint_of_a_model_has_its_sizes():
    narrow, own = load_model("deepseek-r1-nvfp4"), load_model("deepseek-r1")
    assert narrow.like == own.name
    differing = {key for key in own.config if own.config[key] != narrow.config[key]}
    assert differing == {"quantization_config"}


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("llama3-405b", "llama3.1-405b"),
        ("GPT2-Large", "gpt2-large"),
        ("resnet50", "resnet-50"),
        ("bert_base", "bert-base"),
        ("neusight:gpt3_xl", "neusight-gpt3-xl"),
    ],
)
def test_an_alias_leads_to_its_model(alias: str, name: str):
    assert load_model(alias).name == name


@pytest.mark.parametrize(
    ("typed", "meant"), [("gpt2large", "gpt2-large"), ("llama", "llama2-7b"), ("mixtral", "mixtral-8x7b")]
)
def test_an_unknown_model_lists_close_names_and_the_other_ways_to_name_one(typed: str, meant: str):
    with pytest.raises(UnknownNameError) as raised:
        load_model(typed)
    assert meant in raised.value.close_names
    assert "perfcast catalog models" in str(raised.value)
    assert "config.json" in str(raised.value)


@pytest.mark.parametrize("name", ["gpt2", "bert-base", "t5-small", "vit-b-16", "resnet-50", "qwen2.5-0.5b"])
def test_the_built_model_has_the_published_number_of_parameters(name: str):
    entry = load_model(name)
    shape = StepShape(mode="prefill", sequence_length=8)
    with torch.device("meta"):
        module = build_program(entry.config, entry.architecture, shape).module
    assert sum(p.numel() for p in module.parameters()) == pytest.approx(entry.parameters.value, rel=0.01)


def test_the_recommender_has_the_published_number_of_parameters():
    entry = load_model("dlrm-small")
    module = build_dlrm_program(entry.config, batch_size=2, training=False).module
    assert sum(p.numel() for p in module.parameters()) == entry.parameters.value
    assert all(p.dtype is torch.float32 for p in module.parameters())
