"""Each kind of result as a document: what is said about it, one file a subject."""
