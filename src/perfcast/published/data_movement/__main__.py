"""``python -m perfcast.published.data_movement``."""

from perfcast.published.comparison import print_comparison
from perfcast.published.data_movement.compare import compare

if __name__ == "__main__":
    print_comparison(compare)
