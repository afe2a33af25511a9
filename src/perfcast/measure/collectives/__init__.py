"""Collectives measured on real processes: ``profile`` is the way in.

``plan`` says what is measured, ``launch`` starts processes and watches them, ``environment`` finds the
ranks of torchrun or Slurm instead, ``worker`` is what every process runs, ``calls`` are the collectives,
``store`` keeps what is finished.
"""
