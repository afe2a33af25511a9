"""One plan's step at many sizes: devices added to a training, batches and contexts of an inference."""
