"""Running: engines, one start from launch to sample, and runs that outlive what breaks.

launch     what is asked of every engine, and what it tells: `Engine`, `Launch`, `Started`, `Reported`, `Ended`
engines    one file each; an engine's `start` starts the workers of a launch
local      how the local engine does that: `leader` forks the workers, `worker` becomes the job's program
ray, slurm how the others do; there `host` holds each worker on its machine
attempt    one start, from launch to sample; `supervise` is a run of several
"""
