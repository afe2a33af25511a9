"""What a GPU machine tells of all forecasts in twenty minutes: parts in processes of their own, one file."""
