"""``perfcast mesh``: one file per subcommand."""
