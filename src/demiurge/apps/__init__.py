"""Apps: what a world runs, as data files and a reducer. They may import everything up to `world`."""
