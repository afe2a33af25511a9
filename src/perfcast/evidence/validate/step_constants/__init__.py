"""Constants of a step, chosen on published runs."""
