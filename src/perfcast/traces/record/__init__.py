"""Recording programs: started from outside, counted and profiled inside."""
