#!/bin/sh
# Makes the environments in which adapters are tried against the tools themselves, below a folder:
#
#     sh benchmarks/tool_environments.sh DIR && COTUNE_ENVIRONMENTS=DIR python -m pytest tests/adapters
#
# logs, mlflow and wandb: what writes logs that cotune reads, and what cotune's callbacks run in; sky: SkyPilot
# and Kubeflow's models; tf: TensorFlow; titan: torchtitan. They are apart because their pins differ. PYTHON names the interpreter (python3, of
# version 3.11 or later); pip's own variables hold, such as PIP_FIND_LINKS for a torch without CUDA.
set -e
into="${1:?a folder for the environments}"
mkdir -p "$into"
for name in logs mlflow wandb sky tf titan; do
    "${PYTHON:-python3}" -m venv "$into/$name"
done
"$into/logs/bin/pip" install --quiet "torch==2.13.0" tensorboard lightning transformers accelerate optuna "ray[tune]" \
    scikit-learn pydantic PyYAML SQLAlchemy platformdirs scipy typer rich
"$into/mlflow/bin/pip" install --quiet mlflow
"$into/wandb/bin/pip" install --quiet "wandb>=0.31" numpy
"$into/sky/bin/pip" install --quiet skypilot kubeflow-trainer-api scipy SQLAlchemy platformdirs pydantic PyYAML typer rich
"$into/tf/bin/pip" install --quiet tensorflow-cpu
"$into/titan/bin/pip" install --quiet "torch==2.13.0" triton torchtitan==0.3.0
