"""Plain PyTorch: transformers' modules run eagerly, their backward followed step by step."""
