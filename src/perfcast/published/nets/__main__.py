"""``python -m perfcast.published.nets``."""

from perfcast.published.comparison import print_comparison
from perfcast.published.nets.compare import compare

if __name__ == "__main__":
    print_comparison(compare)
