"""``python -m perfcast``."""

from perfcast.cli.main import main

main()
