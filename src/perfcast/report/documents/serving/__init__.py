"""Serving under load as documents: one deployment, and many of them."""
