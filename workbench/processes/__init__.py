"""Child processes that end with their parent, however it ends.

A child is forked, or started as a program; afterwards none of its processes is left.
"""


class OverError(BaseException):
    """The time of a block (`alarm`) is over; code in it cannot mistake this for another error."""

    def __init__(self, alarm: object) -> None:
        super().__init__()
        self.alarm = alarm
