"""``python -m perfcast.published.searcher_3d``."""

import sys

from perfcast.published.searcher_3d.search import main

sys.exit(main(sys.argv[1:]))
