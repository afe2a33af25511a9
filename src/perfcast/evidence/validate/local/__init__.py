"""Small models, predicted and really run on this machine."""
