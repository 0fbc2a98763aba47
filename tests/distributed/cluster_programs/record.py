"""Records what TensorFlow says to these programs, into ../answers.json.

    .venv-tf/bin/python tests/distributed/cluster_programs/record.py [NAME ...]
"""
import json
import os
import pathlib
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")


def main(names):
    import cluster_programs
    import tensorflow.compat.v1 as tf
    tf.disable_v2_behavior()
    tf.logging.set_verbosity(tf.logging.ERROR)
    file = HERE.parent / "answers.json"
    found = json.loads(file.read_text()) if file.exists() and names else {}
    cluster = cluster_programs.Cluster(tf, ps=2, worker=2)
    for name in names or cluster_programs.PROGRAMS:
        begin = time.time()
        with tempfile.TemporaryDirectory() as folder:
            thread = threading.Thread(target=lambda: found.update({name: cluster_programs.answers(
                tf, name, cluster, 0.5, folder)}), daemon=True)
            found[name] = ["hangs"]
            thread.start()
            thread.join(120)
        print(f"{name}  {time.time() - begin:.1f} s")
        for line in found[name]:
            print("   ", json.dumps(line), flush=True)
    found = {name: found[name] for name in cluster_programs.PROGRAMS if name in found}
    text = []
    for name, said in found.items():
        lines = ",\n  ".join(json.dumps(line) for line in said)
        text.append(f" {json.dumps(name)}: [\n  {lines}]")
    file.write_text("{\n" + ",\n".join(text) + "\n}\n")
    sys.stdout.flush()
    os._exit(0)                              # TensorFlow's servers cannot be stopped


if __name__ == "__main__":
    main(sys.argv[1:])
