"""One durable step, side by side: a line of text is added to a list, and is on disk before the next one is said."""
