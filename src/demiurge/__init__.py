"""Demiurge: a durable, governed tool runtime for LLM agents."""
