"""Source, PTX and machine code in pages: coloured lines, gutters, hunks, both sides."""
