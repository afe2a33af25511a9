"""A module that trains in part: adapters put beside its linear layers, four-bit weights, frozen parts."""
