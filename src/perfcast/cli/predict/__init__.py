"""``perfcast predict``: one device, a plan, a parallel program, a recommendation model."""
