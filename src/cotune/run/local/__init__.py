"""What the local engine is made of: fork server, shares of the machine, emulated nodes.

engines/local.py ─connection▶ keeper ─▶ forkserver ─fork▶ leader, one a launch ─fork▶ worker, one a rank
"""
