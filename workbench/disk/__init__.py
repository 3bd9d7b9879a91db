"""All writing and deleting: whole or not at all, below a folder that was named, through no link.

In come a folder and names relative to it, which may stem from a file of somebody else; out
go files on the disk, or an error that says what was left as it was. A checkout or a site
from elsewhere can hold links, pipes and names that climb out: none of them leads a write
or a removal to another place. What is read of them is bounded by `limits`.
"""
