"""What is searched: every plan that a model, devices and a batch allow, and those that fit."""
