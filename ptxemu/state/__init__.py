"""What a batch of blocks is made of while it runs: registers, lanes, and memory.

In come sizes and addresses; out go values for all lanes at once. Operations stand on
this room, and it knows none of them.
"""
