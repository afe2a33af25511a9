"""The HTTP API and the page, on the same questions and answers as the command line."""
