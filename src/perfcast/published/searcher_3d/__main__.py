"""``python -m perfcast.published.searcher_3d [CLUSTER.json MODEL.json]``: without a job, the comparison."""

import sys

from perfcast.published.comparison import print_comparison
from perfcast.published.searcher_3d.compare import compare
from perfcast.published.searcher_3d.search import main

if __name__ == "__main__":
    if len(sys.argv) == 1 or sys.argv[1].startswith("--data"):
        print_comparison(compare)
    sys.exit(main(sys.argv[1:]))
