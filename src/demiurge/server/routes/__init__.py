"""The paths of the API, by subject. Each module has one `router`."""
