"""Times of the host: operators that a processor ran at other sizes, another processor, another machine."""
