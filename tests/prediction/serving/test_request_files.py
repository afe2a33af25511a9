"""Recordings of services, as they are published."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfcast.core.serving.requests import Requests
from perfcast.errors import InputError
from perfcast.prediction.serving import request_files
from perfcast.prediction.serving.request_files import read_requests


def read(folder: Path, text: str, name: str = "requests.csv") -> Requests:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_requests(path)


def test_an_azure_trace_has_dates_of_seven_digits(tmp_path: Path):
    found = read(
        tmp_path,
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:17:03.9799600,4808,10\n"
        "2023-11-16 18:17:04.0319600,3180,8\n",
    )
    assert found.arrival_seconds.tolist() == pytest.approx([0.0, 0.052], abs=1e-6)
    assert found.prompt_tokens.tolist() == [4808, 3180]
    assert found.answer_tokens.tolist() == [10, 8]


def test_a_date_may_have_a_zone_and_no_digits(tmp_path: Path):
    found = read(
        tmp_path,
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2024-05-10 00:00:00.009930+00:00,2162,5\n"
        "2024-05-10 00:00:01,2399,6\n",
    )
    assert found.arrival_seconds.tolist() == pytest.approx([0.0, 0.99007])


def test_burstgpt_leaves_out_requests_that_failed(tmp_path: Path):
    found = read(
        tmp_path,
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,472,18,490,Conversation log\n"
        "45,ChatGPT,1087,0,1087,Conversation log\n"
        "118,GPT-4,417,276,693,API log\n",
    )
    assert found.arrival_seconds.tolist() == [0.0, 113.0]
    assert found.answer_tokens.tolist() == [18, 276]


def test_mooncake_hashes_say_what_an_earlier_prompt_began_with(tmp_path: Path):
    found = read(
        tmp_path,
        '{"timestamp": 27482, "input_length": 1200, "output_length": 52, "hash_ids": [46, 47, 48]}\n'
        '{"timestamp": 30535, "input_length": 1500, "output_length": 26, "hash_ids": [46, 47, 49]}\n'
        '{"timestamp": 30536, "input_length": 512, "output_length": 3, "hash_ids": [46]}\n',
        "mooncake.jsonl",
    )
    assert found.arrival_seconds.tolist() == pytest.approx([0.0, 3.053, 3.054])
    assert found.cached_tokens.tolist() == [0, 1024, 511]


def test_plain_columns_may_say_what_is_cached_and_come_in_any_order(tmp_path: Path):
    found = read(
        tmp_path, "prompt_tokens,answer_tokens,cached_tokens,arrival_seconds\n100,5,32,2\n50,6,0,1.5\n"
    )
    assert found.prompt_tokens.tolist() == [50, 100]
    assert found.cached_tokens.tolist() == [0, 32]
    assert found.arrival_seconds.tolist() == [0.0, 0.5]


PLAIN = "arrival_seconds,prompt_tokens,answer_tokens,cached_tokens\n"


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("", "a.csv", r"line 1: its columns are nothing; known are timestamp, contexttokens"),
        ("a,b\n1,2\n", "a.csv", r"line 1: its columns are a, b"),
        (PLAIN, "a.csv", "no request in it"),
        (PLAIN + "0,1,1,0\nsoon,1,1,0\n", "a.csv", r"line 3, column arrival_seconds: 'soon' is no time"),
        (PLAIN + "inf,1,1,0\n", "a.csv", r"line 2, column arrival_seconds: 'inf' is no time"),
        (PLAIN + "0,1.5,1,0\n", "a.csv", r"line 2, column prompt_tokens: '1.5' is no number of tokens"),
        (PLAIN + "0,8,0,0\n", "a.csv", r"line 2, column answer_tokens: '0' is no number of tokens of 1"),
        (PLAIN + "0,8,1,8\n", "a.csv", r"line 2, column cached_tokens: 8 of a prompt of 8"),
        (PLAIN + "0,8\n", "a.csv", r"line 2, column answer_tokens: missing"),
        ("{\n", "a.jsonl", r"line 1: not valid JSON"),
        ("[1]\n", "a.jsonl", r"line 1: expected an object"),
        ('{"timestamp": 1}\n', "a.jsonl", r"line 1, column input_length: None is no number"),
        (
            '{"timestamp": 1, "input_length": 4, "output_length": 2, "hash_ids": 3}\n',
            "a.jsonl",
            r"column hash_ids: expected a list",
        ),
        (
            "TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,1\n",
            "a.csv",
            r"line 2, column timestamp: 'yesterday' is no time",
        ),
    ],
)
def test_what_no_request_has_is_refused_with_its_place(tmp_path: Path, text: str, name: str, message: str):
    with pytest.raises(InputError, match=message):
        read(tmp_path, text, name)


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match=r"cannot read .*none\.csv': no such file"):
        read_requests(tmp_path / "none.csv")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="no UTF-8 text"):
        read_requests(tmp_path / "binary.csv")


def test_a_file_of_too_many_requests_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(request_files, "MOST_REQUESTS", 2)
    with pytest.raises(InputError, match="more than 2 requests; cut it"):
        read(tmp_path, PLAIN + "0,1,1,0\n" * 3)
