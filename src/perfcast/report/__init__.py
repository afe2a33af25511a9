"""What people read: JSON, terminal, HTML. Renders forecasts and tables; computes no forecast."""
