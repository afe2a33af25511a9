"""Files that a generated benchmark is shipped with; they need PyTorch alone and are copied as they are."""
