"""Close names of commands, completion, answers in a few lines, files to begin with."""

import json
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete

from perfcast.cli.main import cli, run


def completed(*words: str, incomplete: str) -> list[str]:
    """What a shell offers."""
    complete = ShellComplete(cli, {}, "perfcast", "_PERFCAST_COMPLETE")
    return [item.value for item in complete.get_completions(list(words), incomplete)]


@pytest.mark.parametrize(
    ("words", "close"),
    [(["predct"], "predict"), (["mesh", "cst"], "cost"), (["catalog", "device"], "devices")],
)
def test_a_mistyped_command_is_answered_with_the_close_one(words, close, capsys):
    assert run(words) == 2
    assert f"Did you mean {close}" in capsys.readouterr().err


def test_names_of_the_catalog_are_completed():
    assert "h100-sxm" in completed("predict", "gpt2", "--device", incomplete="h100")
    assert completed("predict", incomplete="gpt2-l") == ["gpt2-large"]
    assert "dgx-h100" in completed("search", "gpt2", "--cluster", incomplete="dgx-h")
    assert "megatron" in completed("predict", "gpt2", "--framework", incomplete="meg")
    assert "a100-sxm-80gb" in completed("catalog", "devices", incomplete="a100-sxm")
    assert completed("search", "gpt2", "--cluster", incomplete="dgx-h100:8,dgx-h20")[0].startswith(
        "dgx-h100:8,dgx-h20"
    )


def test_an_answer_in_a_few_lines(capsys):
    words = [
        "predict",
        "gpt2",
        "--cluster",
        "dgx-h100:8",
        "--plan",
        "dp=8",
        "--closed-form",
        "--cost-model",
        "roofline",
    ]
    assert run([*words, "--brief"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert 1 < len(lines) <= 6
    assert run([*words, "--brief", "--json", "-"]) == 2


def test_every_json_states_its_version(capsys):
    assert run(["catalog", "devices", "h100-sxm", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["schema_version"] == "1"


def test_a_device_of_ones_own_begins_with_a_file(tmp_path, capsys):
    path = tmp_path / "my-gpu.toml"
    assert run(["catalog", "new-device", str(path)]) == 0
    assert run(["predict", "gpt2", "--device", str(path), "--cost-model", "roofline", "--brief"]) == 0
    assert "My Device 80GB" in capsys.readouterr().out
    assert run(["catalog", "new-device", str(path)]) == 2
    assert "is there already" in capsys.readouterr().err


def test_a_model_of_the_hub_says_how_to_get_its_config(capsys):
    assert run(["predict", "meta-llama/Llama-3-8B", "--device", "h100-sxm"]) == 2
    said = capsys.readouterr().err
    assert "hf download meta-llama/Llama-3-8B config.json" in said
    assert "llama3-8b" in said


def test_help_stays_instant():
    """Completion of names imports the catalog when a shell asks, not before."""
    code = (
        "import sys; from perfcast.cli.main import run; run(['predict', '--help']); "
        "print('perfcast.catalogs.devices' in sys.modules, file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stderr.strip() == "False"
