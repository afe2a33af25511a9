"""What the host spends on issuing a step, and how long the device waits for it.

``processors`` says which processor issues and how fast it is, ``costs`` what an operator costs by class and
mode, ``issue`` gives every node of a graph its time on the host, ``queue`` what of it the device waits for.
"""
