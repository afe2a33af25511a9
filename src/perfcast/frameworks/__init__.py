"""What the programs that train and serve models do: one profile of each, from one data file.

``profile`` has the types, ``load`` reads ``data/NAME.toml``, ``obstacles`` says which plans a framework
cannot run, ``choice`` whose framework a plan suggests. Memory, kernels, prediction, search and hand-over read
profiles; no other room branches on a framework's name.

How to add a framework: its word in ``core.training.TrainingFramework`` (none, if it only serves), and
``data/NAME.toml`` with every figure and its source; ``like = "OTHER"`` takes over what another file says.
``perfcast validate memory`` and ``perfcast validate published`` fit its figures with ``--write-spread``. To
hand plans over to it, add a module to ``searches/handover`` and its line to ``searches/handover/write``.
"""
