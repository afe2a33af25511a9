import json

import pytest

from perfcast.core.dtype import DType
from perfcast.errors import InputError
from perfcast.searches.sharding.inputs.tables import load_tables

CSV = "name,num_rows,dim,pooling,dtype\nuser,1000000,64,1,\nitem, 5000 ,128,20.5,fp16\n"
ENTRIES = [
    {"name": "user", "num_rows": 1_000_000, "dim": 64, "pooling": 1},
    {"name": "item", "num_rows": 5000, "dim": 128, "pooling": 20.5, "dtype": "fp16"},
]
TOML = "\n".join(
    "[[tables]]\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in entry.items()) + "\n"
    for entry in ENTRIES
)


def written(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", CSV),
        ("t.json", json.dumps(ENTRIES)),
        ("t.json", json.dumps({"tables": ENTRIES})),
        ("t.toml", TOML),
    ],
)
def test_all_forms_say_the_same(tmp_path, name, text):
    user, item = load_tables(written(tmp_path, name, text))
    assert (user.name, user.num_rows, user.dim, user.pooling, user.dtype) == (
        "user", 1_000_000, 64, 1.0, DType.FP32,
    )  # fmt: skip
    assert (item.num_rows, item.pooling, item.dtype) == (5000, 20.5, DType.FP16)


def test_a_reuse_histogram_is_read(tmp_path):
    rows, lookups = [3.0] + [0.0] * 16, [3.0] + [0.0] * 16
    entry = ENTRIES[0] | {"reuse_rows": rows, "reuse_lookups": lookups, "pooling_deviation": 0.5}
    table = load_tables(written(tmp_path, "t.json", json.dumps([entry])))[0]
    assert table.reuse.num_rows == 3
    assert table.pooling_deviation == 0.5


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a,10,8", "line 3: 4 cells"),
        ("a,10,8,1,9", "line 3: 4 cells"),
        ("a,ten,8,1", r"line 3: num_rows is 'ten'; it is a number"),
        ("a,10.5,8,1", r"line 3: num_rows is '10.5'; it is a whole number"),
        ("a,0,8,1", "line 3: .* of 0 rows"),
        ("a,10,8,-1", "line 3: .*-1"),
        ("a,10,8,nan", "line 3: pooling is 'nan'"),
        ("a,1e400,8,1", "line 3: num_rows is '1e400'"),
        ("a,10,,1", "line 3: dim is missing"),
        ("b,10,8,1", "line 3: table 'b' stands at .*line 2 too"),
    ],
)
def test_a_bad_row_of_csv_is_named_by_its_line(tmp_path, line, said):
    path = written(tmp_path, "t.csv", f"name,num_rows,dim,pooling\nb,10,8,1\n{line}\n")
    with pytest.raises(InputError, match=said):
        load_tables(path)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("t.csv", "name,rows,dim,pooling\na,1,1,1\n", "num_rows is missing"),
        (
            "t.csv",
            "name,num_rows,dim,pooling,poolling\na,1,1,1,1\n",
            "column 'poolling'. Did you mean pooling",
        ),
        ("t.csv", "name,num_rows,dim,pooling\n", "no table"),
        ("t.csv", 'name,num_rows,dim,pooling\n"a,1,1,1\n', "line"),
        ("t.json", "[{", "not valid JSON"),
        ("t.json", "[" * 100_000, "not valid JSON"),
        ("t.json", "{}", "no list of tables"),
        ("t.json", "[3]", "entry 1: not an object"),
        ("t.json", '[{"name": "a", "num_rows": true, "dim": 1, "pooling": 1}]', "num_rows is True"),
        ("t.json", '[{"name": "a", "num_rows": 1, "dim": [1], "pooling": 1}]', "dim is"),
        (
            "t.json",
            '[{"name": "a", "num_rows": 1, "dim": 1, "pooling": 1, "dtype": "fp33"}]',
            "Did you mean fp32",
        ),
        ("t.json", '[{"name": "a", "num_rows": 1, "dim": 1, "pooling": 1, "reuse_rows": [1]}]', "two lists"),
        (
            "t.toml",
            "[[tables]]\nname = 'a'\n\n[[tables]]\nname = 3\n",
            "line 1: num_rows, dim, pooling are missing",
        ),
        ("t.toml", "tables = 3", "no list of tables"),
        ("t.toml", "[[tables", "not valid TOML"),
        ("t.txt", "", "read from .csv, .json or .toml"),
    ],
)
def test_a_file_that_holds_no_tables_says_why(tmp_path, name, text, said):
    with pytest.raises(InputError, match=said):
        load_tables(written(tmp_path, name, text))


def test_a_file_that_is_not_there_says_so(tmp_path):
    with pytest.raises(InputError, match="cannot read the list of tables"):
        load_tables(tmp_path / "none.csv")


def test_bytes_that_are_no_text_say_so(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xff\xfe\x00name")
    with pytest.raises(InputError, match="cannot read the list of tables"):
        load_tables(path)
