"""Chakra execution traces and ASTRA-sim's folders: from recordings, forecasts and plans."""
