import pytest

from made_up_sharding import random_tables, table
from perfcast.catalogs.clusters import load_cluster
from perfcast.catalogs.devices import load_device
from perfcast.core.embedding.lookup import ShardingKind
from perfcast.errors import InputError, PlanError, UnknownNameError
from perfcast.searches.sharding.on_cluster import find_sharding, parse_kinds
from perfcast.searches.sharding.request import ShardingRequest


def test_a_choice_on_a_cluster_fits_its_devices_and_says_what_it_assumes():
    found = find_sharding(
        ShardingRequest(
            tables=random_tables(12, 0), cluster=load_cluster("dgx-a100:4"), global_batch_size=4096
        )
    )
    device = load_device(found.device)
    assert found.choice.num_ranks == 4
    assert found.choice.memory_limit_bytes == 0.8 * device.memory_bytes
    assert any("no reuse is known" in line for line in found.assumptions)


def test_a_larger_batch_takes_longer():
    tables, cluster = random_tables(12, 0), load_cluster("dgx-a100:4")
    small = find_sharding(ShardingRequest(tables=tables, cluster=cluster, global_batch_size=4096))
    large = find_sharding(ShardingRequest(tables=tables, cluster=cluster, global_batch_size=65_536))
    assert large.choice.time.step_seconds > small.choice.time.step_seconds


def test_tables_beyond_the_memory_are_refused():
    huge = table("huge", num_rows=10**11, dim=128)
    with pytest.raises(PlanError, match="'huge'"):
        find_sharding(
            ShardingRequest(tables=(huge,), cluster=load_cluster("dgx-a100:8"), global_batch_size=4096)
        )


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5, float("nan")])
def test_a_share_of_memory_lies_above_none_and_at_most_all(share):
    with pytest.raises(InputError, match="memory share"):
        find_sharding(
            ShardingRequest(
                tables=(table("a"),),
                cluster=load_cluster("dgx-a100:8"),
                global_batch_size=64,
                memory_share=share,
            )
        )


def test_kinds_are_read_by_name_and_whole_tables_are_always_allowed():
    assert parse_kinds("row_wise") == (ShardingKind.TABLE_WISE, ShardingKind.ROW_WISE)
    assert parse_kinds("") == (ShardingKind.TABLE_WISE,)
    with pytest.raises(UnknownNameError, match="row_wise"):
        parse_kinds("row")
