"""Logs of nccl-tests and rccl-tests as printed, whole and broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfcast.errors import InputError
from perfcast.measure.collectives.nccl_tests import load_nccl_log, parse_nccl_log

RANKS = "".join(
    f"#  Rank  {rank} Group  0 Pid  {900 + rank} on node-1 device  {rank} [0x0{rank}] NVIDIA A100-SXM4-40GB\n"
    for rank in range(8)
)
BLOCK = "  time   algbw   busbw #wrong"
HEADER = f"""\
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root   {BLOCK}   {BLOCK}
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
ROW = "{:12}  {:12}     float     sum      -1  {}  {}\n"
ROWS = (
    ROW.format(8, 2, "  33.50    0.00    0.00      0", "  33.91    0.00    0.00      0")
    + ROW.format(1048576, 262144, "  69.91   15.00   26.25      0", "  67.65   15.50   27.13      0")
    + ROW.format(1073741824, 268435456, " 8053.1  133.33  233.33      0", " 8010.0  134.05  234.59    N/A")
)
END = """\
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 86.5
#
"""
START = """\
# nccl-tests version 2.17.1 nccl-headers=22703 nccl-library=22703
# Collective test starting: all_reduce_perf
"""
LOG = START + RANKS + HEADER + ROWS + END + "# Collective test concluded: all_reduce_perf\n"


def labelled(text: str, label: str) -> str:
    return "".join(label + line + "\n" for line in text.splitlines())


def test_rows_are_in_bytes_and_seconds():
    rows = parse_nccl_log(LOG)
    assert [row.size_bytes for row in rows] == [8, 1048576, 1073741824]
    middle = rows[1]
    assert middle.seconds == pytest.approx(69.91e-6)
    assert middle.in_place_seconds == pytest.approx(67.65e-6)
    assert middle.bus_bytes_per_second == pytest.approx(26.25e9)
    assert (middle.collective, middle.num_ranks, middle.dtype) == ("all_reduce", 8, "float")
    assert LOG.splitlines()[middle.line - 1].split()[0] == "1048576"


@pytest.mark.parametrize("label", ["[1,0]<stdout>:", "[1,0]<stdout>: ", "0: ", "    "])
def test_labels_of_launchers_are_ignored(label: str):
    assert parse_nccl_log(labelled(LOG, label)) == parse_nccl_log(LOG)


def test_a_table_without_operation_and_root_and_with_errors_is_read():
    log = """\
# all_gather_perf
#       size         count      type     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float    69.91   15.00   13.12  2e-07    67.65   15.50   13.56  2e-07
# Avg bus bandwidth    : 13.3
"""
    (row,) = parse_nccl_log(log)
    assert (row.collective, row.num_ranks) == ("all_gather", 8)


def test_blank_operation_and_root_are_no_missing_columns():
    rows = ROWS.replace("sum", "   ").replace("-1", "  ")
    log = LOG.replace(ROWS, rows).replace("all_reduce", "broadcast")
    assert [row.collective for row in parse_nccl_log(log)] == ["broadcast"] * 3


def test_extra_columns_after_each_block_are_skipped():
    header = HEADER.replace("#wrong", "#wrong min max p99 cv%")
    rows = "     1048576 262144 float sum -1 69.91 15.00 26.25 0 60 80 79 3 67.65 15.50 27.13 0 60 80 79 3\n"
    (row,) = parse_nccl_log(LOG.replace(HEADER, header).replace(ROWS, rows))
    assert row.in_place_seconds == pytest.approx(67.65e-6)


def test_several_runs_in_one_file_keep_their_names():
    other = LOG.replace("all_reduce", "alltoall").replace("float     sum", "float    none")
    assert [row.collective for row in parse_nccl_log(LOG + other)] == ["all_reduce"] * 3 + ["all_to_all"] * 3


def test_the_last_line_of_a_run_names_it_too():
    log = LOG.replace("# Collective test starting: all_reduce_perf\n", "")
    assert {row.collective for row in parse_nccl_log(log)} == {"all_reduce"}


def test_without_a_list_the_ranks_follow_from_the_two_bandwidths():
    assert {row.num_ranks for row in parse_nccl_log(LOG.replace(RANKS, ""))} == {8}


def test_without_list_and_ratio_the_ranks_must_be_said():
    log = LOG.replace(RANKS, "").replace("all_reduce", "broadcast")
    with pytest.raises(InputError, match="does not list its ranks"):
        parse_nccl_log(log)
    assert {row.num_ranks for row in parse_nccl_log(log, num_ranks=8)} == {8}


def test_groups_of_a_split_run_are_counted_each():
    lines = RANKS.splitlines(keepends=True)
    split = "".join(line.replace("Group  0", "Group  1") if i % 2 else line for i, line in enumerate(lines))
    assert {row.num_ranks for row in parse_nccl_log(LOG.replace(RANKS, split))} == {4}


def test_messages_of_no_bytes_are_left_out():
    zero = ROW.format(0, 0, "   0.15    0.00    0.00      0", "   0.14    0.00    0.00      0")
    assert parse_nccl_log(LOG.replace(ROWS, zero + ROWS))[0].size_bytes == 8


def test_a_log_cut_off_is_refused_with_the_lines():
    with pytest.raises(InputError, match=r"a.log:\d+: .*begins at line 13 is cut off after 3 rows.*Avg bus"):
        parse_nccl_log(START + RANKS + HEADER + ROWS, "a.log")


def test_a_row_cut_off_is_refused_with_its_line():
    log = LOG.replace("  234.59    N/A", "")
    with pytest.raises(
        InputError, match=r"log:17: .*11 columns where the header at line 13 has 13: size count"
    ):
        parse_nccl_log(log)


def test_a_failed_run_says_why_in_full():
    failure = """\
node-1: Test NCCL failure common.cu:958 'unhandled system error (run with NCCL_DEBUG=INFO for details) / '
 .. node-1 pid 901: Test failure common.cu:842
"""
    with pytest.raises(
        InputError, match=r"log:15: the run failed: .*unhandled system error.*\.\. node-1 pid"
    ):
        parse_nccl_log(START + RANKS + HEADER + failure)


@pytest.mark.parametrize("text", ["", "time,size\n1,2\n", "# Rank 0 of something else\n1 2 3\n"])
def test_a_foreign_file_is_refused(text: str):
    with pytest.raises(InputError, match="no table was found; expected the output of nccl-tests"):
        parse_nccl_log(text)


def test_rates_that_do_not_follow_from_size_and_time_are_refused():
    with pytest.raises(InputError, match=r"expected bytes, µs and 10⁹ bytes/s"):
        parse_nccl_log(LOG.replace("8053.1", "8.0531"))


def test_wrong_results_are_refused():
    with pytest.raises(InputError, match="7 wrong elements"):
        parse_nccl_log(LOG.replace("26.25      0", "26.25      7"))


def test_programs_that_do_not_know_of_each_other_are_refused():
    with pytest.raises(InputError, match="rank 0 is listed twice"):
        parse_nccl_log(LOG.replace("Rank  3", "Rank  0"))


def test_the_ranks_of_a_run_that_never_began_are_not_counted():
    options = "# nThread 1 nGpus 1 minBytes 8 maxBytes 1024 step: 2(factor) iters: 20\n"
    assert {row.num_ranks for row in parse_nccl_log(options + RANKS + options + LOG)} == {8}


def test_a_missing_rank_is_named():
    lines = [line for line in RANKS.splitlines(keepends=True) if "Rank  3" not in line]
    with pytest.raises(InputError, match="rank 3 is missing"):
        parse_nccl_log(LOG.replace(RANKS, "".join(lines)))


def test_an_unknown_program_is_refused():
    with pytest.raises(InputError, match="hypercube_perf is not a collective known here"):
        parse_nccl_log(LOG.replace("all_reduce", "hypercube"))


def test_a_log_without_a_name_needs_one():
    log = LOG.replace("all_reduce_perf", "test")
    with pytest.raises(InputError, match="does not name its program"):
        parse_nccl_log(log)
    assert {row.collective for row in parse_nccl_log(log, collective="all_reduce")} == {"all_reduce"}


def test_a_file_that_is_not_there_is_bad_input(tmp_path: Path):
    with pytest.raises(InputError, match="cannot read the log"):
        load_nccl_log(tmp_path / "none.log")
    (tmp_path / "run.log").write_text(LOG)
    assert len(load_nccl_log(tmp_path / "run.log")) == 3
