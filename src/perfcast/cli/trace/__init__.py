"""``perfcast trace``: one file per subcommand."""
