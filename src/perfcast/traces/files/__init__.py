"""Trace files: archives and long JSON documents, read in bounded memory."""
