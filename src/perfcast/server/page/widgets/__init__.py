"""Controls of a form: what is drawn, and what of a question each reads and writes."""
