"""Limits of time, tokens and money: how much a run may use, and how much it has used."""
