"""``python -m perfcast.published.data_movement``."""

import sys

from perfcast.published.data_movement.layer import main

sys.exit(main())
