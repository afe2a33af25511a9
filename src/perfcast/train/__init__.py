"""Small nets trained from measurements: reproducible, resumable, without pickles."""
