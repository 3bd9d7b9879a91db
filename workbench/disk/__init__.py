"""All writing and deleting: whole or not at all, below a named folder, through no link.

Input: a folder and names relative to it, which may come from a foreign file. Output: files on the
disk, or an error that says what is unchanged. A checkout or a site from elsewhere can hold links,
pipes and names that climb out: none of them leads a write or a removal to another place. `limits`
bounds the amount that is read from them.
"""
