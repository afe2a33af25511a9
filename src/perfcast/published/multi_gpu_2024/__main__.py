"""``python -m perfcast.published.multi_gpu_2024``."""

from perfcast.published.comparison import print_comparison
from perfcast.published.multi_gpu_2024.compare import compare

if __name__ == "__main__":
    print_comparison(compare)
