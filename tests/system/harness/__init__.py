"""What the system tests share: programs, their users, the wires between them."""
