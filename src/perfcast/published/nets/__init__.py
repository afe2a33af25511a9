"""Nets of published predictors: how they are built, kept on disk and asked."""
