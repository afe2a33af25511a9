"""Whatever a verb answers shows itself in every way."""

import json

import pytest

import perfcast as pc
from perfcast.errors import InputError
from rendered import json_of

TABLES = "name,num_rows,dim,pooling\na,100000,64,10\nb,50000,32,3\n"
LLAMA = "llama3-8b"
WAYS = {
    "plan": lambda _: pc.predict(
        LLAMA, cluster="dgx-h100:8", plan="tp=8", closed_form=True, cost_model="roofline"
    ),
    "run": lambda _: pc.predict(
        LLAMA, cluster="dgx-h100:8", plan="tp=8", closed_form=True, cost_model="roofline", tokens=1e12
    ),
    "memory of a plan": lambda _: pc.memory(LLAMA, "h100-sxm", devices=8, plan="tp=8"),
    "search": lambda _: pc.search(LLAMA, cluster="dgx-h100:8", global_batch_size=8, no_simulate=True),
    "scale": lambda _: pc.scale(LLAMA, cluster="dgx-h100", devices=(8, 16)),
    "limits": lambda _: pc.scale(limits=True),
    "serving": lambda _: pc.serving(
        LLAMA, "h100-sxm", concurrency=4, input_length="256", output_length="32", method="closed-form"
    ),
    "sweep": lambda _: pc.serving(
        LLAMA,
        "h100-sxm",
        sweep=("concurrency=1,4",),
        input_length="256",
        output_length="32",
        method="closed-form",
    ),
    "mesh cost": lambda _: pc.mesh_cost(cluster="dgx-h100:8", collective="all_reduce"),
    "shard": lambda tables: pc.shard(str(tables), cluster="dgx-h100:8"),
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    path = tmp_path_factory.mktemp("shown") / "tables.csv"
    path.write_text(TABLES, encoding="utf-8")
    return path


@pytest.mark.parametrize("way", WAYS)
def test_an_answer_shows_itself_in_every_way(way, tables, tmp_path):
    result = WAYS[way](tables)
    assert 1 <= len(repr(result).splitlines()) <= 7
    assert all(len(line) <= 120 for line in repr(result).splitlines())
    assert len(result._repr_html_()) < 25_000
    json_of(result.data())
    assert result.to_dict() == json.loads(result.to_json())
    assert len(result.to_dataframe())
    assert all(result.picture(name).to_svg().startswith("<svg") for name in result.figures)
    result.to_html(tmp_path / "a.html")
    compared = result.compare(result)
    assert len(compared.to_dataframe())
    assert all(figure.difference == 0 for figure in compared.data().figures)
    assert compared._repr_html_()
    with pytest.raises(InputError, match="no timeline"):
        result.to_perfetto(tmp_path / "a.json")
