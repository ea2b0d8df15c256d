"""Ready-made jobs: ordinary training scripts that run alone, under torchrun and under cotune."""
