"""What a step runs on: a device, its host, a cluster of them, the mesh along which they lie."""
