"""Memory of ranks that train a sharded recommendation model, by hand."""

from __future__ import annotations

from perfcast.core.embedding.lookup import EmbeddingTable, ShardingKind, TablePlacement
from perfcast.memory_use.recommender import estimate_recommender_memory

TABLE = EmbeddingTable("t", 1000, 64, 10.0)
WHOLE = (TablePlacement(ShardingKind.TABLE_WISE, (0,)),)


def test_a_table_lies_on_its_rank_with_the_state_of_its_optimizer():
    memory = estimate_recommender_memory(
        [TABLE], WHOLE, 2, 128, "rowwise_adagrad", dense_bytes=100.0, activation_bytes=10.0
    )
    assert memory.table_bytes.tolist() == [256_000, 0]
    assert memory.table_state_bytes.tolist() == [4000, 0]
    # Rank 0 gets 128 x 11 x 8 bytes of indices, sends 2 x 64 x 256 and receives 64 x 256, twice.
    pooled = 64 * 256
    assert memory.communication_bytes.tolist() == [128 * 11 * 8 + 2 * 3 * pooled, 2 * pooled]
    assert (memory.total_bytes[1]) == 2 * pooled + 110


def test_adagrad_keeps_as_much_as_the_weights():
    held = [
        estimate_recommender_memory(
            [TABLE], WHOLE, 2, 128, name, dense_bytes=0.0, activation_bytes=0.0
        ).table_state_bytes[0]
        for name in ("sgd", "adagrad")
    ]
    assert held == [0, 256_000]
