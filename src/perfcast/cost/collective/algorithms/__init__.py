"""The algorithms of collectives, one file each: seconds of a group on its links."""
