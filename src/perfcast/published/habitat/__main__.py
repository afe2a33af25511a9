"""``python -m perfcast.published.habitat``."""

from perfcast.published.comparison import print_comparison
from perfcast.published.habitat.compare import compare

if __name__ == "__main__":
    print_comparison(compare)
