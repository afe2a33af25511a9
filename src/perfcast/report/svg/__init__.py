"""Figures as SVG: drawn here, so that a page needs no chart library."""
