"""What a plan asks for before anything is timed: its cluster, its memory, and what would make it fit."""
