"""Processes that end with the one that started them, however that one ends.

In comes a child, forked or started as a program; what comes out is that nothing of it is left.
"""


class OverError(BaseException):
    """The time of a block (`alarm`) is over; nothing in it takes that for an error of its own."""

    def __init__(self, alarm: object) -> None:
        super().__init__()
        self.alarm = alarm
