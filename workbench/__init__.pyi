from workbench.errors import InconclusiveError as InconclusiveError
from workbench.errors import WorkbenchError as WorkbenchError
from workbench.face import Session as Session
from workbench.face import open_session as open
from workbench.face import read_report as read_report
from workbench.model import Profile as Profile
from workbench.programs.profiled import profiled as profiled
from workbench.session.step import Diff as Diff
from workbench.session.targets import Target as Target
from workbench.session.workspace import Selection as Selection

__version__: str
__all__ = [
    "Diff",
    "InconclusiveError",
    "Profile",
    "Selection",
    "Session",
    "Target",
    "WorkbenchError",
    "open",
    "profiled",
    "read_report",
]
