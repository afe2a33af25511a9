"""The page: one view a verb, on the same questions as the API."""
