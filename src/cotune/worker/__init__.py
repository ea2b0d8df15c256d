"""What a training script calls, inside a worker: report, parameter servers, balance (workers are started in `run/`)."""
