"""Names → data. Every figure in the data files has a unit and a source and is checked on load."""
