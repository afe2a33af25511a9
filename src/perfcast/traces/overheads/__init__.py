"""Host overheads, fitted from recordings and applied to forecasts."""
