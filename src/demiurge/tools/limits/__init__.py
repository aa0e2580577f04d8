"""Time, tokens and money (seed 004): how much a run may use, and how much it has used."""
