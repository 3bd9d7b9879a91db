"""Processes that end with the one that started them, however that one ends.

Nothing of a child, forked or started as a program, is left behind: not after its end or ours, and
not where we are killed with no time to do anything.
"""


class OverError(BaseException):
    """The time of a block (`alarm`) is over; nothing in it takes that for an error of its own."""

    def __init__(self, alarm: object) -> None:
        super().__init__()
        self.alarm = alarm
