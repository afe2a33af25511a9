"""The programs of the study's steps: what of them was timed, counted on its smallest model."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from perfcast.core.graph import Graph, Phase
from perfcast.core.mode import Mode
from perfcast.core.operation import Operation
from perfcast.errors import InputError
from perfcast.evidence.validate.steps.study_models import build_study_program, capture_study_step
from perfcast.prediction import Request

LAYERS = {"neusight-opt": 1, "neusight-bert": 12, "neusight-gpt2-medium": 24}


def request(model: str, mode: Mode, batch_size: int = 2) -> Request:
    return Request(model=model, mode=mode, batch_size=batch_size, sequence_length=16, dtype="fp32",
                   attention="eager", optimizer="none")  # fmt: skip


@cache
def captured(model: str, mode: Mode) -> Graph:
    return capture_study_step(request(model, mode))


def operations(graph: Graph, phase: Phase) -> list[Operation]:
    return [graph.operations[n.operation] for n in graph.nodes if n.phase is phase]


def names(graph: Graph, phase: Phase) -> Counter[str]:
    return Counter(operation.name for operation in operations(graph, phase))


@pytest.mark.parametrize(
    ("model", "in_each_layer"),
    [
        ("neusight-gpt2-medium", {"div": 1, "where": 1, "_softmax": 1, "tanh": 1}),
        ("neusight-bert", {"div": 1, "_softmax": 1, "gelu": 1}),
        ("neusight-opt", {"maximum": 1, "_softmax": 1, "relu": 1}),
    ],
)
def test_attention_runs_the_kernels_of_the_studys_transformers(model: str, in_each_layer: dict[str, int]):
    found = names(captured(model, "prefill"), Phase.FORWARD)
    assert {name: found[name] // LAYERS[model] for name in in_each_layer} == in_each_layer


def test_what_is_selected_by_a_mask_is_selected_again_in_the_backward():
    found = names(captured("neusight-gpt2-medium", "train"), Phase.BACKWARD)
    assert found["where"] == found["_softmax_backward_data"] == 24


def test_a_mask_for_every_sequence_is_added_to_the_scores_of_all_heads():
    graph = captured("neusight-opt", "prefill")
    masks = [o for o in operations(graph, Phase.FORWARD) if o.name == "add" and len(o.inputs[0].shape) == 4]
    assert {(o.inputs[0].shape, o.inputs[1].shape) for o in masks} == {((2, 8, 16, 16), (2, 1, 16, 16))}


def test_bert_is_a_classifier_in_inference_and_predicts_words_in_training():
    inference = build_study_program(request("neusight-bert", "prefill")).module
    training = build_study_program(request("neusight-bert", "train")).module
    assert type(inference).__name__ == "BertForSequenceClassification"
    assert type(training).__name__ == "BertForPreTraining"


def test_the_loss_is_in_neither_part_but_its_backward_is():
    graph = captured("neusight-opt", "train")
    loss = [o for o in operations(graph, Phase.FORWARD) if o.name in ("_log_softmax", "nll_loss_forward")]
    assert [o.is_free for o in loss] == [True, True]
    assert {"_log_softmax_backward_data", "nll_loss_backward"} <= set(names(graph, Phase.BACKWARD))


def test_every_backward_adds_to_the_gradients_that_are_there():
    # read the gradient that is there and the new one, write the sum: 12 bytes a weight
    graph = captured("neusight-opt", "train")
    added = [o for o in operations(graph, Phase.BACKWARD) if o.name == "add_"]
    module = build_study_program(request("neusight-opt", "train")).module
    assert len(added) == sum(1 for _ in module.parameters())
    assert sum(o.memory_traffic_bytes for o in added) == 12 * graph.parameter_count


def test_an_expert_works_on_its_capacity_for_every_sequence_filled_or_not():
    def rows_of_experts(batch_size: int) -> set[int]:
        graph = capture_study_step(request("neusight-switch-xl-4", "prefill", batch_size))
        wide = [o for o in graph.operations if o.name == "mm" and o.outputs[0].shape[1] == 16384]
        return {o.outputs[0].shape[0] for o in wide}

    # dense layers take all tokens, 16 of a sequence; experts 64 rows of each
    assert rows_of_experts(1) == {16, 64}
    assert rows_of_experts(2) == {32, 128}


def test_a_model_without_a_configuration_is_none_of_the_studys():
    with pytest.raises(InputError, match="no model of the study"):
        build_study_program(request("dlrm-mlperf", "prefill"))
