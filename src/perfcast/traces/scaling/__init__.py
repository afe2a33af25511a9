"""Which dimensions of recorded tensors follow the batch: one description, of traces and of replays."""
