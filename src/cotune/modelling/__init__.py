"""A room of its own: what a model costs before it runs, counted, modelled or measured layer by layer.

counting/                a step counted without running it, and timed; `prediction` makes seconds, memory and cost of it
roofline, step_law       counts at a device's rates, and steps that were measured
layer_rows, layer_sums   timed single layers, and a network as their sum; `predictors/` learn them
memory/, layouts/        what fits a device, and how a large model is spread over many; `decoder/` trains in any layout
workloads/               models by name
"""
