"""The models of those READMEs as plain modules, in the sizes of the repository's scripts."""
