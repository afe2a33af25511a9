"""``python -m perfcast.published.mesh_cost_model``."""

from perfcast.published.comparison import print_comparison
from perfcast.published.mesh_cost_model.compare import compare

if __name__ == "__main__":
    print_comparison(compare)
