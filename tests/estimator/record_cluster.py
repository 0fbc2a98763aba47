"""Records what TensorFlow's RunConfig makes of TF_CONFIG, into cluster_configs.json.

    TF_PYTHON tests/estimator/record_cluster.py         # the last TensorFlow with estimators: 2.15
"""
import json
import os
import pathlib

CLUSTER = {"chief": ["a:1"], "ps": ["b:1", "b:2"], "worker": ["c:1", "d:1"]}
MASTER = {"master": ["a:1"], "ps": ["b:1"], "worker": ["c:1"]}


def description(tf):
    """What a RunConfig says of the cluster, or its error."""
    try:
        made = tf.estimator.RunConfig()
    except (ValueError, TypeError) as problem:
        return [type(problem).__name__, str(problem).split(":")[0].split("\n")[0]]
    cluster = made.cluster_spec.as_dict() if made.cluster_spec else {}
    return [made.task_type, made.task_id, made.master, made.evaluation_master, made.is_chief,
            made.num_ps_replicas, made.num_worker_replicas, made.global_id_in_cluster, cluster]


def task(job, index=0):
    return {"type": job, "index": index}


CONFIGS = [
    {}, {"task": task("worker")}, {"task": task("ps")}, {"task": task("worker", 1)},
    *({"cluster": CLUSTER, "task": task(job, index)} for job, index in (
        ("chief", 0), ("ps", 0), ("ps", 1), ("worker", 0), ("worker", 1), ("worker", 2),
        ("evaluator", 0), ("evaluator", 1), ("master", 0), ("chief", -1), ("chief", "0"))),
    *({"cluster": MASTER, "task": task(job)} for job in ("master", "ps", "worker", "evaluator")),
    {"cluster": {"chief": ["a:1"]}, "task": task("chief")},
    {"cluster": {"worker": ["a:1"]}, "task": task("worker")},
    {"cluster": {"chief": ["a:1", "b:1"]}, "task": task("chief")},
    {"cluster": {**CLUSTER, **MASTER}, "task": task("worker")},
    {"cluster": CLUSTER}, {"cluster": CLUSTER, "task": {"type": "worker"}},
    {"cluster": CLUSTER, "task": {"index": 0}},
    {"cluster": CLUSTER, "task": task("worker"), "session_master": "grpc://x:9"},
    {"cluster": CLUSTER, "task": task("worker"), "rpc_layer": "grpc+loas"},
    {"cluster": CLUSTER, "task": task("worker"), "eval_session_master": "grpc://x:9"},
    {"cluster": CLUSTER, "task": task("evaluator"), "eval_session_master": "grpc://x:9"},
    {"cluster": {**CLUSTER, "odd": ["o:1"]}, "task": task("odd")},
]


def main():
    import tensorflow.compat.v1 as tf
    answers = {}
    for config in CONFIGS:
        text = os.environ["TF_CONFIG"] = json.dumps(config)
        answers[text] = description(tf)
    lines = ",\n".join(f" {json.dumps(text)}: {json.dumps(found)}" for text, found in
                       answers.items())
    pathlib.Path(__file__).with_name("cluster_configs.json").write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main()
