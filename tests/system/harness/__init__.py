"""Shared by the system tests: programs, their users, the wires between them."""
