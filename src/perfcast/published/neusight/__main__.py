"""``python -m perfcast.published.neusight``."""

from perfcast.published.comparison import print_comparison
from perfcast.published.neusight.compare import compare

if __name__ == "__main__":
    print_comparison(compare)
