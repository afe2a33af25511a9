"""Operation + device → seconds. A plan never enters here: one operation, one device."""
