"""What is done to a version from its build to its stored profile, and to many of them.

In come a study and what is asked of it; the engines run it. Out go records into the
store: nothing that was not verified is kept. `ladder` reads them back, in order.
"""
