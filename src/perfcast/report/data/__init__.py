"""Each kind of result as typed data: what JSON holds of it, one file a subject."""
