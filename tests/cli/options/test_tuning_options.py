"""What trains, as every verb that trains takes it."""

from __future__ import annotations

import pytest

from perfcast.cli.main import run


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("predict gpt2 --device h100-sxm --mode decode --lora rank=8", "--lora: of a training"),
        ("memory gpt2 --device h100-sxm --mode prefill --freeze embedding", "--freeze: of a training"),
        ("predict gpt2 --device h100-sxm --lora rank=8 --qlora rank=8", "take one of them"),
        ("predict gpt2 --device h100-sxm --lora alpha=8", "changes no time"),
        ("search gpt2 --cluster dgx-h100:8 --global-batch-size 8 --lora rank=0", "at least 1"),
        ("scale gpt2 --cluster dgx-h100 --mode decode --qlora rank=8", "--qlora"),
    ],
)
def test_bad_input_exits_with_2_and_one_line(arguments: str, says: str, capsys: pytest.CaptureFixture[str]):
    assert run(arguments.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
