"""Certificates for a cluster: an authority of its own and a certificate a task, by openssl.

Invariants
1. The system's `openssl` command makes keys and signs; nothing here computes.
2. Files are written in a folder only their owner can enter, keys with mode 0600, and then moved
   to their places; a run that breaks off leaves no half-written file under a final name.
3. An authority that is there is used again, so that tasks can be added; its key, ca.key, is needed
   for that alone and belongs on no machine of the cluster.

Threads: a function without state.  Callers: `python -m pyflow cluster make-certificates`, tests.

    make_certificates("certs", hosts={"ps-0": ["10.0.0.7"], "worker-0": ["10.0.0.8"]})
    #   certs/ca.pem  certs/ca.key  certs/ps-0/{ca.pem,task.pem,task.key}  certs/worker-0/...
"""
import ipaddress
import os
import re
import shutil
import subprocess
import tempfile

from pyflow.framework import errors

HERE = ("localhost", "127.0.0.1", "::1")
_CONFIG = """
[req]
distinguished_name = name
prompt = no
[name]
CN = {name}
[authority]
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[task]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth, clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
{hosts}
"""
_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-sha256"]


def make_certificates(folder, hosts=HERE, days=365):
    """Makes an authority and certificates; returns the folders that `Credentials.load` reads.

    folder: gets ca.pem and ca.key, or has them from an earlier call.
    hosts: the names and addresses under which a task is reached, in one certificate for all of
        them, in `folder` itself; or {task: such names}, in a folder `folder`/task each.
    days: how long they are valid.

    Raises ValueError for what is no host, task or number of days; tf.errors.NotFoundError where
    there is no openssl; tf.errors.UnknownError with openssl's words if it fails."""
    if not 1 <= int(days) <= 36500:
        raise ValueError(f"days must be from 1 to 36500, got {days!r}")
    wanted = _checked(hosts)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".making-") as work:   # mode 0700
        return _make(os.fspath(folder), wanted, int(days), work)


def _checked(hosts):
    """{folder below the folder: [hosts]}; "" is the folder itself."""
    if isinstance(hosts, str):
        hosts = [hosts]
    tasks = hosts if isinstance(hosts, dict) else {"": hosts}
    for task, names in tasks.items():
        if task and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", task):
            raise ValueError(f"task {task!r}: expected a name as worker-0")
        if isinstance(names, str) or not names:
            raise ValueError(f"hosts {names!r}: expected names or addresses, at least one")
        for host in names:
            if not _is_ip(host) and not re.fullmatch(r"(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_.-]*)", host):
                raise ValueError(f"host {host!r}: expected a name or an address, without a port")
    if not tasks:
        raise ValueError("hosts: no task is named")
    return {task: list(names) for task, names in tasks.items()}


def _is_ip(host):
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _make(folder, tasks, days, work):
    authority = [os.path.join(folder, name) for name in ("ca.pem", "ca.key")]
    there = [os.path.exists(path) for path in authority]
    if there == [True, False]:
        raise errors.FailedPreconditionError(None, None, (
            f"{folder} has an authority, ca.pem, without its key ca.key: bring the key to add "
            "certificates, or take another folder"))
    if not all(there):
        made = [os.path.join(work, name) for name in ("ca.pem", "ca.key")]
        _openssl(["req", "-x509", *_KEY, "-config", _config(work, f"pyflow {os.urandom(4).hex()}"),
                  "-extensions", "authority", "-days", str(days), "-keyout", made[1],
                  "-out", made[0]])
        os.chmod(made[1], 0o600)
        for path, place in zip(reversed(made), reversed(authority)):
            os.replace(path, place)
    return [_certify(os.path.join(folder, task) if task else folder, task, names, days, authority,
                     work) for task, names in tasks.items()]


def _certify(place, task, hosts, days, authority, work):
    """One certificate and its key, in the folder `place`, with a copy of ca.pem."""
    names = ",".join(f"IP:{host}" if _is_ip(host) else f"DNS:{host}" for host in hosts)
    settings = _config(work, task or "task", f"subjectAltName = {names}")
    made = {name: os.path.join(work, name) for name in ("task.key", "task.pem", "request")}
    _openssl(["req", "-new", *_KEY, "-config", settings, "-keyout", made["task.key"],
              "-out", made["request"]])
    _openssl(["x509", "-req", "-in", made["request"], "-CA", authority[0], "-CAkey", authority[1],
              "-set_serial", str(int.from_bytes(os.urandom(8), "big") | 1), "-days", str(days),
              "-sha256", "-extfile", settings, "-extensions", "task", "-out", made["task.pem"]])
    os.chmod(made["task.key"], 0o600)
    os.makedirs(place, mode=0o700, exist_ok=True)
    for name in ("task.key", "task.pem"):
        os.replace(made[name], os.path.join(place, name))
    if os.path.join(place, "ca.pem") != authority[0]:
        shutil.copyfile(authority[0], os.path.join(place, "ca.pem"))
    return place


def _config(work, name, hosts=""):
    path = os.path.join(work, "openssl.cnf")
    with open(path, "w", encoding="utf-8") as f:
        f.write(_CONFIG.format(name=name, hosts=hosts))
    return path


def _openssl(arguments):
    try:
        done = subprocess.run(["openssl", *arguments], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=60)
    except FileNotFoundError:
        raise errors.NotFoundError(None, None, (
            "certificates are made by the command openssl, which is not on PATH: install the "
            "system's openssl, or bring certificates of your own")) from None
    if done.returncode:
        raise errors.UnknownError(None, None,
                                  f"openssl {arguments[0]} failed: {done.stderr.strip()}")


PUBLIC = {}
