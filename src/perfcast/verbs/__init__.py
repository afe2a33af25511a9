"""What users ask, one question a verb, and what answers it: shared by command line, Python, HTTP and page."""
