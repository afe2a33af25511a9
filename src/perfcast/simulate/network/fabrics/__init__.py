"""How the devices of a site are wired together: one file for each kind of fabric, and their names."""
