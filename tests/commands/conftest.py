"""Stand-ins for the GPU and for ncu (tests/engines/stand_ins.py)."""

from tests.engines.stand_ins import (  # noqa: F401
    add_version,
    cli,
    experiment,
    fake_ncu,
    ncu_on_path,
    no_gpu,
    project,
    project_file,
    stand_in,
    study,
)
