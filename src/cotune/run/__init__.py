"""Running: engines, one start from launch to sample, and runs that outlive what breaks."""
