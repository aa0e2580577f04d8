"""The log of a world's manifests: each one is in it before it is in force, with its caller and how it came."""

from __future__ import annotations
