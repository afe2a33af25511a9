from pathlib import Path

import pytest

from perfcast.evidence.dataset.shipped import SAMPLE, folder_of
from perfcast.evidence.dataset.table import known_files

LARGEST_BYTES = 300_000


def test_the_sample_is_small():
    assert sum(path.stat().st_size for path in SAMPLE.iterdir()) < LARGEST_BYTES


def test_the_sample_is_named_and_other_words_are_paths():
    assert folder_of("sample") == SAMPLE
    assert folder_of("sample/x") == Path("sample/x")


def test_every_table_of_the_sample_is_read():
    assert len(known_files(SAMPLE)) >= 10


@pytest.mark.parametrize(
    "licence",
    ["NeuSight", "aiconfigurator", "vTrain", "llm-foundry", "BLOOM", "SimuMax", "Megatron-LM", "timm"],
)
def test_the_sources_of_the_sample_are_named_in_the_notice(licence: str):
    notice = (Path(__file__).parents[3] / "NOTICE").read_text("utf-8")
    shipped = notice[notice.index("src/perfcast/evidence/dataset/sample") :].split("\n\n")[0]
    assert licence in shipped
