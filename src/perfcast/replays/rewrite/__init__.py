"""Calls for another device."""
