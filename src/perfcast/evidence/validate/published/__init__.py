"""Published runs against forecasts of them."""
