"""Judge versions, captured programs and recorded times by a project's rules: `check`.

The input is recorded profiles and times, or an earlier state that is measured now. The output is
gates that passed, failed or could not be judged.
"""
