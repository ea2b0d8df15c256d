"""What the local engine is made of: fork server, shares of the machine, emulated nodes."""
