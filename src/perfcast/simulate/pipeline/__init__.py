"""A step of a plan as a program of the engine.

``units`` says what a stage runs in one go, ``build`` writes the program, ``causes`` reads where each stage's
time went from the played program, ``spans`` its timeline, ``chain`` what decided it.
"""
