"""A chosen layout as another program's own settings: torchtitan's flags, Accelerate's file with FSDP2.

torchtitan   words after its own command (0.3: --module and --config come first); a pipeline's micro-batches make its
             local batch, elsewhere they accumulate
accelerate   a config for `accelerate launch`; it has no pipelines, and ZeRO 1 is not FSDP's
"""

from __future__ import annotations

from collections.abc import Callable

import yaml

from cotune.errors import UsageError
from cotune.interop.export import PORT
from cotune.interop.exporters.accelerate import ON_EACH_NODE
from cotune.modelling.layouts.layout import Layout
from cotune.modelling.layouts.setting import Setting


def torchtitan(layout: Layout, setting: Setting) -> str:
    """Return the words of torchtitan's command line, one a line; the last says what is computed again."""
    if layout.shard == 1:
        raise UsageError(
            f"torchtitan shards gradients or parameters too, not states alone ({layout})", remedy="shards_titan"
        )
    piped = layout.pp > 1
    settings: dict[str, object] = {
        "training.local_batch_size": layout.micro_batch * (layout.accumulate if piped else 1),
        "training.global_batch_size": layout.global_batch,
        "training.seq_len": setting.model.seq_len,
        "parallelism.data_parallel_replicate_degree": 1 if layout.shard else layout.dp,
        "parallelism.data_parallel_shard_degree": layout.dp if layout.shard else 1,
        "parallelism.fsdp_reshard_after_forward": "always" if layout.shard == 3 else "never",
        "parallelism.tensor_parallel_degree": layout.tp,
        "parallelism.pipeline_parallel_degree": layout.pp,
    }
    if piped:
        # zero-bubble schedules with FSDP2 give wrong gradients without an error
        settings["parallelism.pipeline_parallel_schedule"] = "1F1B"
        settings["parallelism.pipeline_parallel_microbatch_size"] = layout.micro_batch
    words = [f"--{name}={value}" for name, value in settings.items()]
    if piped:
        words.append("--training.disable_cuda_graphs")  # it refuses pipelines with them
    return "\n".join([*words, f"activation_checkpoint:{'full' if layout.recompute else 'none'}", ""])


def accelerate(layout: Layout, setting: Setting) -> str:
    """Return a config file for `accelerate launch` that shards with FSDP2."""
    if layout.pp > 1 or layout.shard < 2:
        raise UsageError(
            f"Accelerate's FSDP2 has no pipelines and shards gradients at least ({layout})", remedy="shards_accelerate"
        )
    machines = max(layout.gpus // setting.machine.per_node, 1)
    config: dict[str, object] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "FSDP",
        "num_machines": machines,
        "num_processes": layout.gpus,
        "machine_rank": 0,
        **({"main_process_ip": "HEAD", "main_process_port": PORT} if machines > 1 else {}),
        "rdzv_backend": "static",
        "same_network": True,
        "use_cpu": False,
        "mixed_precision": "bf16",
        "fsdp_config": {
            "fsdp_version": 2,
            "fsdp_reshard_after_forward": layout.shard == 3,
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_activation_checkpointing": bool(layout.recompute),
            "fsdp_state_dict_type": "SHARDED_STATE_DICT",
            "fsdp_offload_params": False,
            "fsdp_cpu_ram_efficient_loading": True,
        },
    }
    if layout.tp > 1:
        config["parallelism_config"] = {
            "parallelism_config_dp_shard_size": layout.dp,
            "parallelism_config_tp_size": layout.tp,
        }
    script = f"per_device_train_batch_size {layout.micro_batch}, gradient_accumulation_steps {layout.accumulate}"
    several = f"# accelerate launch --config_file THIS_FILE {ON_EACH_NODE} ...\n" if machines > 1 else ""
    return f"# in the script: {script}\n{several}{yaml.safe_dump(config, sort_keys=False)}"


EXPORTS: dict[str, Callable[[Layout, Setting], str]] = {"torchtitan": torchtitan, "accelerate": accelerate}
