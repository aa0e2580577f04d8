"""Apps that a world runs: data files and a reducer each. They may import everything up to `world`."""
