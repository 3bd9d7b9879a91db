"""Judge versions, captured programs and recorded times by a project's rules: `check`.

Recorded profiles and times, or an earlier state that is measured now, go in; gates that passed,
failed or could not be judged come out.
"""
