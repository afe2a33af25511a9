"""How often the truth lies in the 90 % intervals of forecasts, on measurements left out."""
