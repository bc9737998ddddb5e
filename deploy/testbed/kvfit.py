"""Asks a real vLLM how much KV cache it gives a token, a sequence and a replica.

kvfit.py CASES OUT runs every case of CASES (cases.json): it reads the config.json
of the case, makes the model narrow (fewer attention heads, experts and channels;
never other KV heads, head dimensions, latents or windows, so that the KV cache is
the real model's), starts vLLM on it with random weights, generates, and writes to
OUT what vLLM says. Each model has a process of its own; what vLLM cannot run is
written down with its reason. Cases that OUT has already are left as they are.
"""

import argparse
import json
import multiprocessing
import os
import tempfile
from pathlib import Path

GIB = 2**30

# What a case leaves out.
DEFAULTS = {"kv_dtype": "auto", "layers": 0, "memory": 2 * GIB, "context": 4096, "held": [300]}

# What is asked of vLLM's own planner once an engine runs: memory, longest context,
# tokens that a step may prefill.
GRID = [
    (memory * GIB, context, batched)
    for memory in (40, 120)
    for context, batched in ((8192, 2048), (32768, 2048), (32768, 8192), (10000, 2048))
]

# Shape of the narrow model, beside what the KV cache hangs on.
NARROW = {"vocab_size": 512, "intermediate_size": 256, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
EXPERTS = {"num_local_experts": 4, "num_experts": 4, "n_routed_experts": 16}
BY_TYPE = {
    "deepseek_v2": {"n_group": 1, "topk_group": 1, "topk_method": "greedy"},
    "deepseek_v3": {"n_group": 8, "topk_group": 4, "topk_method": "noaux_tc"},
}
CAUSAL = {"gemma3_text": "Gemma3ForCausalLM", "llama": "LlamaForCausalLM"}


def narrow(config, layers):
    """The config of a narrow model with the same KV cache, of some layers only
    where layers says so."""
    outer = config
    config = dict(config.get("text_config") or config)
    kind = config.get("model_type") or "gemma3_text"
    config["model_type"] = kind
    config.pop("quantization_config", None)
    config.setdefault("torch_dtype", "bfloat16")
    config["architectures"] = [CAUSAL[kind]] if kind in CAUSAL else outer["architectures"]
    if config["hidden_size"] > 256:
        narrow_layers(config)
    config.update(NARROW | BY_TYPE.get(kind, {}))
    if layers:
        config["num_hidden_layers"] = layers
        for name in ("layer_types", "layers_block_type"):
            if config.get(name):
                config[name] = config[name][:layers]
    return config


def narrow_layers(config):
    """Fewer attention heads, experts and channels."""
    kind = config["model_type"]
    heads, kv_heads = config.get("num_attention_heads"), config.get("num_key_value_heads")
    if "kv_lora_rank" in config:
        config.update(num_attention_heads=4, num_key_value_heads=4, hidden_size=256, q_lora_rank=64,
                      qk_nope_head_dim=128, v_head_dim=128, first_k_dense_replace=1, n_shared_experts=1)
    elif "head_dim" in config or kind.startswith("gemma"):
        if heads and kv_heads:
            config["num_attention_heads"] = kv_heads
        config["hidden_size"] = 256
    elif heads and kv_heads:
        config["hidden_size"] = config["hidden_size"] // heads * kv_heads
        config["num_attention_heads"] = kv_heads
    for name, count in EXPERTS.items():
        if name in config:
            config.update({name: count, "num_experts_per_tok": 2, "moe_intermediate_size": 64})
    if kind == "deepseek_v3":
        config["num_experts_per_tok"] = 8


def group_of(group):
    """A KV cache group: its kind, layers, block and page."""
    from vllm.v1.kv_cache_interface import iter_layer_specs

    spec = group.kv_cache_spec
    first = next(iter(iter_layer_specs(spec)))
    dtype = getattr(first, "dtype", None)
    return {
        "kind": type(first).__name__,
        "layers": len(group.layer_names),
        "block_tokens": spec.block_size,
        "page_bytes_per_layer": first.page_size_bytes,
        "kv_heads": getattr(first, "num_kv_heads", None),
        "head_size": getattr(first, "head_size", None),
        "window": getattr(first, "sliding_window", None),
        "dtype": str(dtype).removeprefix("torch.") if dtype else None,
    }


def held(llm, contexts):
    """Blocks that one sequence holds while it decodes, by its context."""
    from vllm import SamplingParams

    engine = llm.llm_engine
    pool = engine.engine_core.engine_core.scheduler.kv_cache_manager.block_pool
    found = []
    for context in contexts:
        free = pool.get_num_free_blocks()
        prompt = {"prompt_token_ids": [3 + (i * 7 + context) % 500 for i in range(context)]}
        engine.add_request(f"held-{context}", prompt, SamplingParams(max_tokens=8, ignore_eos=True, detokenize=False))
        blocks, tokens = 0, 0
        while engine.has_unfinished_requests():
            outputs = engine.step()
            if outputs and not outputs[0].finished:
                blocks, tokens = free - pool.get_num_free_blocks(), len(outputs[0].outputs[0].token_ids)
        found.append({"context_tokens": context + tokens, "blocks": blocks})
    return found


def planned(core, config, started):
    """What vLLM's planner makes of other memories, contexts and batches."""
    from vllm.v1.core.kv_cache_utils import get_kv_cache_capacity, get_kv_cache_configs

    specs = core.model_executor.get_kv_cache_specs()
    found = []
    for memory, context, batched in GRID:
        config.model_config.max_model_len = context
        config.scheduler_config.max_num_batched_tokens = batched
        row = {"kv_memory_bytes": memory, "max_model_len": context, "max_num_batched_tokens": batched,
               "max_in_flight_tokens": config.max_in_flight_tokens}
        try:
            kv = get_kv_cache_configs(config, specs, [memory])[0]
            row["num_gpu_blocks"] = kv.num_blocks
            row["kv_cache_size_tokens"] = get_kv_cache_capacity(config, kv)[0]
        except ValueError as e:
            row["refused"] = str(e).split(". ")[0][:200]
        found.append(row)
    config.model_config.max_model_len, config.scheduler_config.max_num_batched_tokens = started, 2048
    return found


def ask(folder, case):
    """Runs one model in this process: what vLLM says of it."""
    import vllm
    from vllm import LLM

    llm = LLM(model=folder, load_format="dummy", skip_tokenizer_init=True, enforce_eager=True,
              kv_cache_dtype=case["kv_dtype"], kv_cache_memory_bytes=case["memory"], max_model_len=case["context"],
              max_num_batched_tokens=2048, max_num_seqs=8, enable_prefix_caching=False, disable_log_stats=True)
    core = llm.llm_engine.engine_core.engine_core
    cache, kv = llm.llm_engine.vllm_config.cache_config, core.scheduler.kv_cache_config
    found = {
        "vllm": vllm.__version__,
        "kv_memory_bytes": case["memory"],
        "max_model_len": case["context"],
        "max_in_flight_tokens": llm.llm_engine.vllm_config.max_in_flight_tokens,
        "block_size": cache.block_size,
        "num_gpu_blocks": kv.num_blocks,
        "kv_cache_size_tokens": cache.kv_cache_size_tokens,
        "allocated_bytes": max((t.size for t in kv.kv_cache_tensors), default=0),
        "groups": [group_of(g) for g in kv.kv_cache_groups],
        "planned": planned(core, llm.llm_engine.vllm_config, case["context"]),
    }
    try:
        found["held"] = held(llm, case["held"])
    except Exception as e:  # noqa: BLE001 - what it says is the finding.
        found["held_refused"] = reason(e)
    return found


def reason(error):
    """The first line of an error."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:300]


def child(folder, case, log):
    """Asks, and leaves the answer in the folder and vLLM's log in the file."""
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    try:
        found = ask(folder, case)
    except BaseException as e:  # noqa: BLE001 - what it says is the finding.
        found = {"refused": reason(e)}
    (Path(folder) / "found.json").write_text(json.dumps(found))
    os._exit(0)


def run(case, root, logs):
    """Asks in a process of its own."""
    case = DEFAULTS | case
    config = json.loads((root / case["config"]).read_text())
    small = narrow(config, case["layers"])
    name = Path(case["config"]).stem
    row = {"config": name, "kv_dtype": case["kv_dtype"], "layers": small["num_hidden_layers"], "narrow": small}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(small))
        log = logs / f"{name}-{case['kv_dtype']}-{small['num_hidden_layers']}.log"
        p = multiprocessing.get_context("fork").Process(target=child, args=(folder, case, log))
        p.start()
        p.join(1800)
        found = Path(folder) / "found.json"
        if not found.exists():
            p.kill()
            return row | {"refused": f"exit code {p.exitcode}"}
        return row | json.loads(found.read_text())


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("cases", help="JSON list of cases; config.json paths are relative to it")
    a.add_argument("out", help="JSON file of what vLLM says")
    a.add_argument("--logs", default="logs", help="folder for vLLM's logs")
    args = a.parse_args()
    prepare()
    logs, out = Path(args.logs), Path(args.out)
    logs.mkdir(exist_ok=True)
    rows = json.loads(out.read_text()) if out.exists() else []
    for case in json.loads(Path(args.cases).read_text()):
        key = identity(DEFAULTS | case)
        if any(r["case"] == key for r in rows):
            continue
        row = {"case": key} | run(case, Path(args.cases).parent, logs)
        rows.append(row)
        out.write_text("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")
        print(key, row.get("kv_cache_size_tokens", row.get("refused")), flush=True)


def identity(case):
    """The case as one word."""
    return "-".join([Path(case["config"]).stem, case["kv_dtype"], str(case["layers"] or "all")])


def prepare():
    """Loads vLLM once, so that the processes of the models share it."""
    os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1",
                      VLLM_NO_USAGE_STATS="1", DO_NOT_TRACK="1", VLLM_CPU_OMP_THREADS_BIND="nobind", OMP_NUM_THREADS="1")
    from vllm import LLM  # noqa: F401
    from vllm.model_executor.models import registry

    # vLLM looks at a model's class in yet another process, which loads vLLM again.
    registry._run_in_subprocess = lambda fn: fn()


if __name__ == "__main__":
    main()
