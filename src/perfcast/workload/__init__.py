"""How a graph comes to be: modules run symbolically, layers folded, operations given their work.

Importing this package does not import torch; the files that need it are imported where used.
"""
