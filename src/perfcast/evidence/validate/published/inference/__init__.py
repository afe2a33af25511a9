"""Published times of inference, forecast from their configuration."""
