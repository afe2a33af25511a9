"""Steps of timm's image models, as ``benchmark.py`` of that project measured them."""
