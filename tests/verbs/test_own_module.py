"""Modules that a user holds, asked about as they are."""

import copy

import pytest
import torch
from torch import nn

import perfcast as pc
from perfcast.errors import InputError, ModelError, PlanError, QuestionError
from perfcast.verbs.predict.question import PredictQuestion
from perfcast.verbs.question import plain_of

FILE = """
import torch
from torch import nn


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(1000, 64)
        self.inner = nn.Linear(64, 64)
        self.head = nn.Linear(64, 1000, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("scale", torch.ones(64))
        self.table = torch.arange(64.0)

    def forward(self, tokens):
        return self.head(torch.relu(self.inner(self.embedding(tokens) * self.scale + self.table)))


def build():
    return Tied(), torch.zeros(4, 32, dtype=torch.long)
"""


@pytest.fixture
def tied(tmp_path):
    """The class, and the reference of the file that builds it."""
    path = tmp_path / "tied.py"
    path.write_text(FILE, encoding="utf-8")
    found: dict = {}
    exec(compile(FILE, str(path), "exec"), found)
    return found["Tied"], f"{path}:build"


TOKENS = torch.zeros(4, 32, dtype=torch.long)


@pytest.mark.parametrize("mode", ["train", "prefill"])
def test_a_module_is_answered_as_the_file_that_builds_it(tied, mode):
    kind, reference = tied
    held = pc.predict(kind(), TOKENS, "h100-sxm", mode=mode, cost_model="roofline")
    named = pc.predict(reference, "h100-sxm", mode=mode, cost_model="roofline")
    assert held.step_seconds == named.step_seconds
    assert held.memory.peak_bytes == named.memory.peak_bytes
    assert held.parameter_count == named.parameter_count == 1000 * 64 + 64 * 64 + 64
    assert held.batch_size == 4


def test_nothing_of_the_module_or_its_inputs_changes(tied):
    module = tied[0]().eval()
    inputs = {"tokens": TOKENS.clone()}
    before = copy.deepcopy(module.state_dict())
    places = {name: value.data_ptr() for name, value in module.state_dict().items()}
    pc.predict(module, inputs, "h100-sxm", cost_model="roofline")
    assert not module.training
    assert all(parameter.grad is None for parameter in module.parameters())
    assert module.head.weight is module.embedding.weight
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])
        assert value.data_ptr() == places[name]
    assert torch.equal(inputs["tokens"], TOKENS)


def test_a_module_on_meta_is_answered_as_one_with_values():
    module, inputs = nn.Sequential(nn.Linear(64, 256), nn.ReLU()), torch.zeros(8, 64)
    real = pc.predict(module, inputs, "h100-sxm", cost_model="roofline")
    meta = pc.predict(module.to("meta"), (inputs.to("meta"),), "h100-sxm", cost_model="roofline")
    assert meta.step_seconds == real.step_seconds


def test_a_loss_of_ones_own_is_part_of_the_step(tied):
    plain = pc.predict(tied[0](), TOKENS, "h100-sxm", cost_model="roofline")

    def loss(logits):
        return nn.functional.cross_entropy(logits.flatten(0, 1), torch.zeros(128, dtype=torch.long))

    with_loss = pc.predict(tied[0](), TOKENS, "h100-sxm", cost_model="roofline", loss=loss)
    assert with_loss.step_seconds > plain.step_seconds


def test_the_inputs_may_go_by_their_name(tied):
    one = pc.predict(tied[0](), TOKENS, "h100-sxm", cost_model="roofline")
    other = pc.predict(tied[0](), device="h100-sxm", inputs=TOKENS, cost_model="roofline")
    assert one.step_seconds == other.step_seconds


def test_a_module_has_no_command_line():
    asked = PredictQuestion(nn.Linear(2, 2), "h100-sxm", inputs=torch.zeros(1, 2))
    with pytest.raises(QuestionError, match="no name"):
        plain_of(asked)


@pytest.mark.parametrize("keyword", ["batch_size", "sequence_length", "image_size"])
def test_sizes_beside_inputs_are_refused(keyword):
    with pytest.raises(PlanError, match="inputs of Linear say that"):
        pc.predict(nn.Linear(2, 2), torch.zeros(1, 2), "h100-sxm", **{keyword: 8})


def test_a_module_without_inputs_and_inputs_without_a_module_are_refused():
    with pytest.raises(QuestionError, match="arguments of one call"):
        pc.predict(nn.Linear(2, 2), "h100-sxm")
    with pytest.raises(QuestionError, match="of a module"):
        pc.predict("gpt2", "h100-sxm", inputs=torch.zeros(1, 2))


class Uncopied(nn.Linear):
    """A module that forbids copies."""

    def __deepcopy__(self, memo):
        raise RuntimeError("not me")


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (torch.compile(nn.Linear(2, 2), backend="eager"), "compile=True"),
        (nn.LazyLinear(2), "lazy parameters"),
        (Uncopied(2, 2), "cannot be copied"),
    ],
    ids=["compiled", "lazy", "uncopied"],
)
def test_a_module_that_cannot_be_captured_says_why(module, said):
    with pytest.raises(InputError, match=said) as raised:
        pc.predict(module, torch.zeros(1, 2), "h100-sxm", cost_model="roofline")
    assert isinstance(raised.value, ModelError) or "ModelError" in str(raised.value)
