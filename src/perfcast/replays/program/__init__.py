"""What a replay does, as plain data: calls, the tensors in them, the buffers below."""
