"""The ground floor: frozen data that every other room speaks in. No I/O and no torch."""
