"""Graphs over many processes: servers, masters, workers, and the ways between them.

    cluster = tf.train.ClusterSpec({"ps": ["localhost:2222"], "worker": ["localhost:2223"]})
    server = tf.train.Server(cluster, job_name="worker", task_index=0)
    with tf.Session(server.target) as sess: ...

docs/distributed.md tells how to use it; here is how it is cut:

    session -> place (server.py: in this process; client.py: behind an address)
            -> master.py: sessions over many tasks; cluster_compiler.py: devices, partitions;
               cluster_step.py: steps; session_link.py: the tasks in use
            -> worker.py: one task's plans and steps;  remote_worker.py: the same over gRPC
    services.py    MasterService and WorkerService, their calls
    messages.py, tensors.py, rpc.py    what travels, and how;  once.py: what comes twice is done once
    pairs.py, routes.py, links.py      which ops and which link carry tensors; ways.py says so
    watch.py       whether tasks that call over gRPC still can;  aliases.py: ConfigProto.cluster_def
    training.py    sessions that train, and are recovered;  job_end.py: how a job ends
    collectives.py sums over tasks

grpcio is needed by who speaks to another process, and imported then.
"""
