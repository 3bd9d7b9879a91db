"""How good the gate is: false alarms, slow-downs found, and what a noisy machine gets.

``project`` writes a small project twice, before and after planted slow-downs; ``campaign`` runs
`workbench check --against` on them, a process each time, as a CI would; ``curve`` says how many
were found. The recorded pairs stand in ``tests/data/gate``, so that statistics can be judged anew
without a GPU.
"""
