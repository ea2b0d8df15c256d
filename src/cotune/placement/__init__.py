"""A room of its own: layers on types of device, and pipelines that run them."""
