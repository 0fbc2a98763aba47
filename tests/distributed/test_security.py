"""Who may listen where; certificates: who is refused, and what a listener on the wire sees."""
import concurrent.futures
import os
import re
import socket
import ssl
import stat
import subprocess
import sys
import threading

import grpc
import numpy as np
import pytest

import pyflow as tf
from pyflow import _executor, config
from pyflow.distributed.run import remote_worker
from pyflow.distributed.wire import certificates, links, security
from pyflow.distributed.wire.channels import Channels
from pyflow.framework import errors

WEIGHTS = np.random.RandomState(7).bytes(40_000)


# ---------------------------------------------------------------- addresses

@pytest.mark.parametrize("address", [
    "localhost:2222", "LOCALHOST:2222", "127.0.0.1:2222", "127.8.9.1:0", "[::1]:2222", "::1",
    "[::ffff:127.0.0.1]:1", "ipv4:127.0.0.1:2222", "ipv6:[::1]:2222", "dns:localhost:2222",
    "dns:///localhost:2222", "unix:/tmp/x.sock", "unix:///tmp/x.sock", "unix:x", "unix-abstract:x"])
def test_anybody_may_listen_on_loopback(address):
    assert security.is_loopback(address)
    security.check_listen(address)


@pytest.mark.parametrize("address", [
    "0.0.0.0:2222", "[::]:2222", ":2222", "*:2222", "10.0.0.7:2222", "host:2222", "[fe80::1]:2222",
    "128.0.0.1:2222", "localhost.example.org:2222", "127.0.0.1.example.org:1", "[::ffff:8.8.8.8]:1",
    "2130706433:2222", "127.1:2222", "ipv4:0.0.0.0:2222", "dns:host:2222", "unix:", "vsock:2:2222",
    ""])
def test_elsewhere_certificates_or_insecure_are_needed(address):
    with pytest.raises(errors.PermissionDeniedError) as error:
        security.check_listen(address)
    for part in (repr(address), "make-certificates", "insecure=True", "PYFLOW_CERTIFICATES"):
        assert part in str(error.value)
    security.check_listen(address, insecure=True)
    security.check_listen(address, credentials=object())
    with pytest.raises(errors.PermissionDeniedError):
        security.check_listen(address, insecure="yes")      # in so many words


def test_addresses_are_taken_apart():
    for text, expected in (("a:1", ("a", 1)), ("[::1]:22", ("::1", 22)), ("::1", ("::1", None)),
                           ("a", ("a", None)), ("ipv6:[::1]:3", ("::1", 3)),
                           ("dns:///a.b:4", ("a.b", 4))):
        assert security.host_and_port(text) == expected
    for text in ("a:70000", "a:b", "a:-1", "[::1]:x", "unix:a"):
        with pytest.raises(ValueError, match=re.escape(text)):
            security.host_and_port(text)


# ---------------------------------------------------------------- making certificates

@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folders of certificates: ours, another authority's, an expired one of ours."""
    base = tmp_path_factory.mktemp("certificates")
    [ours] = certificates.make_certificates(base / "ours")
    [other] = certificates.make_certificates(base / "other")
    expired = base / "expired"
    expired.mkdir()
    for name in ("task.key", "ca.pem"):
        (expired / name).write_bytes((base / "ours" / name).read_bytes())
        (expired / name).chmod(0o600)
    request = ["openssl", "req", "-new", "-key", "task.key", "-subj", "/CN=late", "-out", "r"]
    subprocess.run(request, cwd=expired, check=True, capture_output=True)
    (expired / "ext").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    sign = ["openssl", "x509", "-req", "-in", "r", "-CA", "ca.pem", "-CAkey",
            str(base / "ours" / "ca.key"), "-set_serial", "9", "-days", "-1", "-extfile", "ext",
            "-out", "task.pem"]
    subprocess.run(sign, cwd=expired, check=True, capture_output=True)
    return {"ours": ours, "other": other, "expired": str(expired)}


def test_keys_are_their_owners_alone_and_names_are_in_the_certificate(made):
    for name, mode in (("ca.key", 0o600), ("task.key", 0o600)):
        assert stat.S_IMODE(os.stat(os.path.join(made["ours"], name)).st_mode) == mode
    assert sorted(os.listdir(made["ours"])) == ["ca.key", "ca.pem", "task.key", "task.pem"]
    info = security.Credentials.load(made["ours"]).certificate_info()
    names = {value for _, value in info["subjectAltName"]}
    assert names == {"localhost", "127.0.0.1", "0:0:0:0:0:0:0:1"}
    seconds = ssl.cert_time_to_seconds(info["notAfter"]) - ssl.cert_time_to_seconds(
        info["notBefore"])
    assert seconds == 365 * 86400


def test_a_certificate_a_task_of_one_authority_and_more_later(tmp_path):
    make = certificates.make_certificates
    folders = make(tmp_path, {"ps-0": ["10.0.0.7"], "worker-0": ["w.example", "10.0.0.8"]}, 3)
    assert folders == [str(tmp_path / "ps-0"), str(tmp_path / "worker-0")]
    authority = (tmp_path / "ca.pem").read_bytes()
    assert make(tmp_path, {"worker-1": ["10.0.0.9"]}) == [str(tmp_path / "worker-1")]
    loaded = [security.Credentials.load(tmp_path, task) for task in ("ps-0", "worker-1")]
    assert [c.authority for c in loaded] == [authority, authority]
    assert loaded[0].key != loaded[1].key
    (tmp_path / "ca.key").unlink()
    with pytest.raises(errors.FailedPreconditionError, match="without its key ca.key"):
        make(tmp_path, {"worker-2": ["10.0.0.9"]})


@pytest.mark.parametrize("hosts, days, said", [
    (["a:2222"], 3, "host 'a:2222'"), (["a\nb"], 3, "host"), (["a,IP:1.2.3.4"], 3, "host"),
    ([], 3, "at least one"), ({"../x": ["a"]}, 3, "task '../x'"), ({"w": "a"}, 3, "expected names"),
    ({}, 3, "no task"), (["a"], 0, "days"), (["a"], 10**6, "days")])
def test_what_is_no_host_or_task(hosts, days, said, tmp_path):
    with pytest.raises(ValueError, match=said):
        certificates.make_certificates(tmp_path, hosts, days)
    assert not os.listdir(tmp_path)


def test_without_openssl(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(errors.NotFoundError, match="install the system's openssl"):
        certificates.make_certificates(tmp_path / "made")
    assert not os.listdir(tmp_path / "made")


def test_the_command(tmp_path):
    words = [sys.executable, "-P", "-m", "pyflow", "cluster", "make-certificates"]
    done = subprocess.run([*words, tmp_path / "c", "--hosts", "ps-0=10.0.0.7,a", "worker-0=b"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "c" / "ps-0") in done.stdout and "ca.key" in done.stdout
    security.Credentials.load(tmp_path / "c", "worker-0")
    done = subprocess.run([*words, tmp_path / "d", "--hosts", "a:1"], capture_output=True,
                          text=True)
    assert done.returncode == 2 and "host 'a:1'" in done.stderr


# ---------------------------------------------------------------- loading

def test_what_is_wrong_with_a_folder_is_said(made, tmp_path, monkeypatch):
    load = security.Credentials.load
    with pytest.raises(errors.NotFoundError, match="ca.pem: No such file.*make-certificates"):
        load(tmp_path)
    with pytest.raises(errors.UnauthenticatedError, match="task.pem proves.*certificate has expir"):
        load(made["expired"])
    for name in security.FILES:
        (tmp_path / name).write_bytes(open(os.path.join(made["ours"], name), "rb").read())
    (tmp_path / "task.key").chmod(0o644)
    with pytest.raises(errors.PermissionDeniedError, match=r"task.key \(mode 0644\): chmod 600"):
        load(tmp_path)
    (tmp_path / "task.key").chmod(0o600)
    monkeypatch.setenv("PYFLOW_CERTIFICATES", str(tmp_path))
    assert security.Credentials.of_environment().folder == str(tmp_path)
    assert "task.key" not in repr(security.Credentials.of_environment())
    (tmp_path / "ca.pem").write_bytes(open(os.path.join(made["other"], "ca.pem"), "rb").read())
    with pytest.raises(errors.UnauthenticatedError, match="proves nothing to a peer"):
        load(tmp_path)
    (tmp_path / "task.key").write_bytes(open(os.path.join(made["other"], "task.key"), "rb").read())
    with pytest.raises(errors.UnauthenticatedError, match="KEY_VALUES_MISMATCH"):
        load(tmp_path)
    (tmp_path / "task.pem").write_bytes(b"\0" * (security.LARGEST + 1))
    with pytest.raises(errors.InvalidArgumentError, match="it is no certificate"):
        load(tmp_path)
    monkeypatch.delenv("PYFLOW_CERTIFICATES")
    assert security.Credentials.of_environment() is None
    assert "PYFLOW_CERTIFICATES" in config.table()


def test_a_missing_grpcio_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(ImportError, match="pip install grpcio"):
        security.open_channel("localhost:1")


# ---------------------------------------------------------------- servers and clients

class Echo(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: request)


@pytest.fixture
def serve():
    servers = []

    def start(credentials=None, address="127.0.0.1:0", **options):
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(2), handlers=[Echo()])
        port = security.listen(server, address, credentials, **options)
        server.start()
        servers.append(server)
        return f"127.0.0.1:{port}"
    yield start
    for server in servers:
        server.stop(None)


def ask(address, credentials=None, data=b"hello"):
    with security.open_channel(address, credentials, [("grpc.enable_http_proxy", 0)]) as channel:
        return channel.unary_unary("/echo/Echo")(data, timeout=5)


def unchecked(folder):
    return security.Credentials(folder, *(open(os.path.join(folder, name), "rb").read()
                                          for name in security.FILES))


def test_both_sides_with_certificates(made, serve):
    ours = security.Credentials.load(made["ours"])
    address = serve(ours)
    assert ask(address, ours) == b"hello"
    assert security.why_refused(address, ours) is None
    assert ask(serve()) == b"hello"
    assert security.why_refused(serve()) is None


def test_a_unix_socket(made, serve, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ours = security.Credentials.load(made["ours"])
    serve(ours, f"unix:{tmp_path}/s")
    assert ask(f"unix:{tmp_path}/s", ours) == b"hello"
    assert security.why_refused(f"unix:{tmp_path}/s", ours) is None
    assert "asks for a certificate" in security.why_refused(f"unix://{tmp_path}/s")
    assert "nobody answers: No such file" in security.why_refused(f"unix:{tmp_path}/t")


@pytest.mark.parametrize("client, reason", [
    (None, "asks for a certificate, and this side showed none"),
    ("other", "this side does not accept the server's certificate"),
    ("expired", "the server refuses this side's certificate: {made}/task.pem proves nothing")])
def test_others_are_refused_and_told_why(client, reason, made, serve):
    address = serve(security.Credentials.load(made["ours"]))
    credentials = unchecked(made[client]) if client else None
    with pytest.raises(grpc.RpcError) as error:
        ask(address, credentials)
    assert error.value.code() == grpc.StatusCode.UNAVAILABLE
    said = security.why_refused(address, credentials)
    assert reason.replace("{made}", made["expired"]) in said
    assert client != "expired" or "certificate has expired" in said


def test_another_authoritys_client_that_trusts_ours_is_refused(made, serve):
    """It accepts the server; the server must not accept it."""
    address = serve(security.Credentials.load(made["ours"]))
    mixed = unchecked(made["other"])
    mixed = security.Credentials(mixed.folder, unchecked(made["ours"]).authority, mixed.certificate,
                                 mixed.key)
    with pytest.raises(grpc.RpcError) as error:
        ask(address, mixed)
    assert error.value.code() == grpc.StatusCode.UNAVAILABLE
    assert "the server refuses this side's certificate" in security.why_refused(address, mixed)


def test_a_certificate_of_another_host_is_refused(made, serve, tmp_path):
    certificates.make_certificates(made["ours"], {"elsewhere": ["elsewhere.example"]})
    address = serve(security.Credentials.load(made["ours"], "elsewhere"))
    ours = security.Credentials.load(made["ours"])
    with pytest.raises(grpc.RpcError):
        ask(address, ours)
    assert "127.0.0.1" in security.why_refused(address, ours).split("certificate:")[1]


def test_a_server_without_tls_and_one_that_is_not_there(made, serve):
    ours = security.Credentials.load(made["ours"])
    assert "the server speaks without TLS" in security.why_refused(serve(), ours)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        assert "nobody answers" in security.why_refused(f"127.0.0.1:{port}", ours)
        with pytest.raises(errors.UnavailableError, match=f"127.0.0.1:{port}.*the port is taken"):
            serve(None, f"127.0.0.1:{port}")


def test_any_address_with_certificates_or_insecure(made, serve):
    with pytest.raises(errors.PermissionDeniedError, match="'0.0.0.0:0' could be reached"):
        serve(None, "0.0.0.0:0")
    ours = security.Credentials.load(made["ours"])
    assert ask(serve(ours, "0.0.0.0:0"), ours) == ask(serve(None, "0.0.0.0:0", insecure=True))


# ---------------------------------------------------------------- the wire

class Recorder:
    """A proxy on loopback that keeps what passes."""

    def __init__(self, target):
        host, port = security.host_and_port(target)
        self.target, self.seen = (host, port), bytearray()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        try:
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(self.target)
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self.pump, args=pair, daemon=True).start()
        except OSError:
            pass

    def pump(self, source, sink):
        try:
            while data := source.recv(65536):
                self.seen += data
                sink.sendall(data)
        except OSError:
            pass
        finally:
            sink.close()


def runs_of(needle, seen, length=16):
    """How many of the needle's runs of `length` bytes, at each of its positions, were seen."""
    there = {bytes(seen[i:i + length]) for i in range(len(seen) - length + 1)}
    return sum(needle[i:i + length] in there for i in range(len(needle) - length + 1))


@pytest.mark.parametrize("secure", [True, False])
def test_what_a_listener_sees_of_weights(secure, made, serve):
    credentials = security.Credentials.load(made["ours"]) if secure else None
    proxy = Recorder(serve(credentials))
    try:
        assert ask(proxy.address, credentials, WEIGHTS) == WEIGHTS
    finally:
        proxy.listener.close()
    assert len(proxy.seen) > 2 * len(WEIGHTS)
    found = runs_of(WEIGHTS, proxy.seen)
    assert found == 0 if secure else found > 0.99 * len(WEIGHTS)


@pytest.mark.parametrize("folder, said", [
    (None, "the server asks for a certificate, and this side showed none: set PYFLOW_CERTIFICATES"),
    ("other", "this side does not accept the server's certificate")])
def test_a_client_that_is_refused_hears_why_at_once(folder, said, made, monkeypatch):
    """It was "Deadline Exceeded", after 30 s."""
    monkeypatch.setattr(remote_worker, "SAY_SECONDS", 0.1)
    monkeypatch.delenv("PYFLOW_CERTIFICATES", raising=False)
    with tf.train.Server({"a": ["localhost:0"]}, credentials=made["ours"]) as server:
        if folder:
            monkeypatch.setenv("PYFLOW_CERTIFICATES", made[folder])
        with pytest.raises(errors.UnauthenticatedError, match=said):
            tf.Session(server.target.replace("localhost", "127.0.0.1"))
        asking = Channels(security.Credentials.of_environment())
        task = remote_worker.RemoteWorker("/job:a/replica:0/task:0", server.address, asking,
                                          ("/job:b/replica:0/task:0", 1, 0))
        with pytest.raises(_executor.StepError, match=said):
            task.open_session(7)
        asking.close()


def test_an_address_that_is_written_as_a_target():
    """An entry "grpc://127.0.0.1:..." was called reachable from other machines."""
    with tf.train.Server({"a": ["grpc://127.0.0.1:0"]}) as server:
        assert server.target.startswith("grpc://127.0.0.1:")


def test_a_server_at_a_unix_socket_listens_at_no_port(tmp_path):
    """Another user could ask it there for its name."""
    with tf.train.Server({"a": [f"unix:{tmp_path}/a.sock"]}) as server:
        assert [offer.split()[0] for offer in server._worker.links.offers] == ["unix"]
    with tf.train.Server({"a": [f"unix:{tmp_path}/b.sock"]}, links=["tcp"]) as server:
        assert [offer.split()[0] for offer in server._worker.links.offers] == ["tcp"]


def test_grpc_is_a_link_that_may_be_named(monkeypatch):
    assert links.chosen(["unix", "grpc"]) == ("unix",) and links.chosen(["grpc"]) == ()
    monkeypatch.setenv("PYFLOW_LINKS", "grpc")
    assert links.chosen() == ()
