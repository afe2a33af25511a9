"""What belongs to what: kernels to calls and operators, nodes of one file to events of another."""
