"""What the Kubeflow engine is made of."""
