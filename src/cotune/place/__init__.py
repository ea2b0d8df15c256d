"""Placing: the layers of a network on types of device, at the least cost for a throughput."""
