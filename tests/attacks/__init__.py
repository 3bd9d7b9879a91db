"""Attacks: what workbench must withstand, many times over, with what came of it in numbers.

Every attack runs commands in processes of its own and then looks at the disk and at what is
left running: no exit of 70, no hang, nothing half, nothing lost, nothing outside touched.
"""
