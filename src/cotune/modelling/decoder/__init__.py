"""A Llama-like language model of any size, trained in any layout that is right: data, tensor, pipeline, sharded.

Architecture, Layout ─▶ spread (cut, parallelize, shard, schedule) ─▶ train ─▶ a checkpoint that any layout goes on from
"""
