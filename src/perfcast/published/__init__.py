"""Published predictors by their names, composed of the rooms below."""
