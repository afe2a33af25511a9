"""What given tensors hold before a program starts."""
