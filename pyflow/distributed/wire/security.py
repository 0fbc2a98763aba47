"""Who may listen where, and credentials for both ends of every connection.

Invariants
1. A server listens on loopback or a UNIX socket as it likes. Anywhere else it needs certificates,
   or insecure=True in so many words; what cannot be told to be loopback is not.
2. With certificates both ends prove who they are: to a server a client without one of the same
   authority is nobody. Whoever has one may do all that the cluster can.
3. Keys are made and used by the system's openssl and by gRPC's TLS, never by code of ours; a key
   that others may read is refused.
4. Credentials shake hands with themselves when they are loaded, so that an expired certificate or
   a key of another one is an error then, that names the file.

Threads: functions without state; Credentials do not change.  grpc is imported when it is used.
Callers: server.py and client.py of this package.

    credentials = Credentials.load("certs")     # made by certificates.make_certificates
    port = listen(server, "10.0.0.7:2222", credentials)          # server: a grpc.Server
    channel = open_channel("10.0.0.7:2222", credentials)
"""
import dataclasses
import ipaddress
import os
import socket
import ssl
import stat

from pyflow import config
from pyflow.framework import errors

FILES = ("ca.pem", "task.pem", "task.key")
VARIABLE = "PYFLOW_CERTIFICATES"
LARGEST = 1 << 20           # bytes of a file of certificates
NEEDS = "servers speak over gRPC, and grpcio is not installed here: pip install grpcio"


def grpc():
    """The module grpc. ImportError, with what to do, where it is not installed."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")    # else it says of each peer that it ended
    try:
        import grpc as module
    except ImportError:
        raise ImportError(NEEDS) from None
    return module


# ---------------------------------------------------------------- addresses

def is_loopback(address):
    """True if only this machine can reach `address`, in gRPC's forms: "localhost:2222",
    "127.0.0.1:2222", "[::1]:2222", "ipv4:...", "ipv6:...", "dns:...", "unix:path",
    "unix-abstract:name". A name other than localhost is not looked up, and is False."""
    scheme, _, rest = address.partition(":")
    if scheme in ("unix", "unix-abstract"):
        return bool(rest)
    host = host_and_port(address)[0]
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return host.lower() == "localhost"
    return (getattr(ip, "ipv4_mapped", None) or ip).is_loopback


def bare(address):
    """An address as a cluster has it, of one that is written as a session's target."""
    return address.removeprefix("grpc://")


def host_and_port(address):
    """("::1", 2222) of "[::1]:2222" and its like; None for a port that is missing. ValueError for
    a UNIX socket and for a port that is no number."""
    scheme, _, rest = address.partition(":")
    if scheme in ("unix", "unix-abstract"):
        raise ValueError(f"address {address!r} is a UNIX socket: it has no host and port")
    text = rest.rpartition("/")[2] if scheme in ("ipv4", "ipv6", "dns") else address
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        port = port.removeprefix(":")
    elif text.count(":") > 1:
        host, port = text, ""
    else:
        host, _, port = text.partition(":")
    if port and not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise ValueError(f"address {address!r}: expected HOST:PORT with a port from 0 to 65535, got"
                         f" {port!r}")
    return host, int(port) if port else None


def check_listen(address, credentials=None, insecure=False):
    """Raises tf.errors.PermissionDeniedError unless a server may listen on `address`.

    credentials: Credentials, which may listen anywhere. insecure: True allows any address without
    them."""
    if credentials is not None or insecure is True or is_loopback(address):
        return
    raise errors.PermissionDeniedError(None, None, (
        f"a server on {address!r} could be reached from other machines, and whoever reaches it may "
        f"run anything in it. Give it certificates (`python -m pyflow cluster make-certificates "
        f"FOLDER --hosts ...`, then {VARIABLE}=FOLDER), let it listen on localhost or unix:PATH, "
        f"or say insecure=True (launch: --insecure) if all who reach that network are trusted"))


# ---------------------------------------------------------------- servers and channels

def listen(server, address, credentials=None, insecure=False):
    """Has a grpc.Server listen on `address`; returns the port (as asked for, or the free one that
    port 0 stands for; 1 for a UNIX socket, as grpc does).

    Raises tf.errors.PermissionDeniedError (`check_listen`), tf.errors.UnavailableError if the
    address is taken or not this machine's."""
    check_listen(address, credentials, insecure)
    try:
        port = (server.add_insecure_port(address) if credentials is None else
                server.add_secure_port(address, credentials.server()))
    except RuntimeError:        # what grpcio raises, of all kinds; 0 in its older versions
        port = 0
    if not port:
        raise errors.UnavailableError(None, None, (
            f"no server can listen on {address!r}: the port is taken, or the address is none of "
            "this machine's. Is an older process of this task still there?"))
    return port


def open_channel(address, credentials=None, options=()):
    """A grpc.Channel to `address`, which connects when it is used; with Credentials only to a
    server that has a certificate of the same authority for that host."""
    if credentials is None:
        return grpc().insecure_channel(address, options)
    if address.startswith("unix"):      # else the socket's path had to be in the certificate
        options = [*options, ("grpc.ssl_target_name_override", "localhost")]
    return grpc().secure_channel(address, credentials.channel(), options)


def why_refused(address, credentials=None, timeout=2.0):
    """What keeps a channel to `address` from connecting, a sentence; None if nothing does.

    gRPC says "socket closed" for most reasons; this connects once more, by Python's ssl, and finds
    out. It takes `timeout` seconds at most. Callers: what makes an error of UNAVAILABLE."""
    try:
        with _connected(address, timeout) as sock:
            return _tls_says(sock, address, credentials)
    except (OSError, ValueError) as e:
        return f"{address}: nobody answers: {getattr(e, 'strerror', None) or e}"


def why_unauthenticated(address, credentials=None, timeout=2.0):
    """As `why_refused`, of a server that there is, and whose certificates or this side's keep a
    channel from connecting; else None."""
    try:
        with _connected(address, timeout) as sock:
            return _tls_says(sock, address, credentials)
    except (OSError, ValueError):
        return None


def _connected(address, timeout):
    scheme, _, rest = address.partition(":")
    if scheme in ("unix", "unix-abstract"):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(timeout)
        try:
            sock.connect("\0" + rest if scheme != "unix" else rest.removeprefix("//"))
        except OSError:
            sock.close()
            raise
        return sock
    host, port = host_and_port(address)
    return socket.create_connection((host, port or 443), timeout)


def _tls_says(sock, address, credentials):
    """The sentence of `why_refused` for a connected socket."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2"])
    context.check_hostname = credentials is not None
    context.verify_mode = ssl.CERT_REQUIRED if credentials else ssl.CERT_NONE
    if credentials is not None:
        context.load_verify_locations(cadata=credentials.authority.decode())
        context.load_cert_chain(credentials.path("task.pem"), credentials.path("task.key"))
    name = "localhost" if address.startswith("unix") else host_and_port(address)[0]
    try:
        with context.wrap_socket(sock, server_hostname=name) as secure:
            answered = secure.recv(1)   # in TLS 1.3 a server refuses after the client's handshake
    except ssl.SSLCertVerificationError as e:
        return f"{address}: this side does not accept the server's certificate: {e.verify_message}"
    except TimeoutError:
        return None                     # it is stopped, or busy: nothing was refused
    except OSError as e:
        answered, reason = b"", getattr(e, "reason", None)
        if reason == "WRONG_VERSION_NUMBER":
            return credentials and (f"{address}: the server speaks without TLS, and this side has "
                                    "certificates")
        if credentials is None and reason is None:
            return None                 # no TLS there, and none asked for
    if credentials is None:
        return (f"{address}: the server asks for a certificate, and this side showed none: set "
                f"{VARIABLE} to a folder with {', '.join(FILES)}")
    return None if answered else f"{address}: {credentials.refusal()}"


# ---------------------------------------------------------------- credentials

@dataclasses.dataclass(frozen=True, repr=False)
class Credentials:
    """A task's certificate, its key, and the authority (CA) that all of the cluster trust: the PEM
    bytes of task.pem, task.key and ca.pem in `folder`. Made by `load` or `of_environment`."""

    folder: str
    authority: bytes
    certificate: bytes
    key: bytes

    @classmethod
    def load(cls, folder, task=None):
        """The Credentials in `folder`, or in its folder of a task: ("certs", "worker-0") reads
        certs/worker-0 if that is there.

        Raises tf.errors.NotFoundError for files that are missing, PermissionDeniedError for a key
        that others may read, UnauthenticatedError for certificates that are expired, of another
        authority or of another key, each with the file's name."""
        folder = os.fspath(folder)
        own = os.path.join(folder, task) if task else folder
        folder = own if os.path.isdir(own) else folder
        found = cls(folder, *(_read(os.path.join(folder, name)) for name in FILES))
        found._check()
        return found

    @classmethod
    def of_environment(cls, task=None):
        """Those in the folder PYFLOW_CERTIFICATES, or None where it is not set."""
        folder = config.value(VARIABLE)
        return None if folder is None else cls.load(folder, task)

    def __repr__(self):
        return f"<pyflow.distributed.wire.security.Credentials in {self.folder!r}>"

    def path(self, name):
        """The path of one of FILES."""
        return os.path.join(self.folder, name)

    def server(self):
        """grpc.ServerCredentials that ask every client for a certificate of the authority."""
        return grpc().ssl_server_credentials([(self.key, self.certificate)], self.authority,
                                             require_client_auth=True)

    def channel(self):
        """grpc.ChannelCredentials."""
        return grpc().ssl_channel_credentials(self.authority, self.key, self.certificate)

    def certificate_info(self):
        """What ssl.SSLSocket.getpeercert says of the certificate: notAfter, subjectAltName, ..."""
        return self._check()

    def refusal(self):
        """Why a server that has this side's trust refuses this side's certificate, as far as it
        can be told from here: servers close the connection and do not say."""
        try:
            self._check()
        except errors.OpError as e:
            return f"the server refuses this side's certificate: {e.message}"
        return ("the server refuses this side's certificate, which is valid here: is it of another "
                "authority than the server's ca.pem?")

    def _check(self):
        """A handshake in memory, both sides with these files: the certificate as the peer sees
        it."""
        try:
            ends = [self._context(ssl.PROTOCOL_TLS_SERVER), self._context(ssl.PROTOCOL_TLS_CLIENT)]
        except ssl.SSLError as e:
            raise errors.UnauthenticatedError(None, None, (
                f"{self.path('task.pem')} and {self.path('task.key')} are no certificate and its "
                f"key: {e.reason or e}")) from None
        try:
            return _shake_hands(*ends)
        except ssl.SSLCertVerificationError as e:
            raise errors.UnauthenticatedError(None, None, (
                f"{self.path('task.pem')} proves nothing to a peer with {self.path('ca.pem')}: "
                f"{e.verify_message}. Make new ones: python -m pyflow cluster make-certificates "
                f"{self.folder}")) from None

    def _context(self, protocol):
        context = ssl.SSLContext(protocol)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=self.authority.decode("ascii", "replace"))
        context.load_cert_chain(self.path("task.pem"), self.path("task.key"))
        return context


def _shake_hands(server_context, client_context):
    """Both ends of a TLS connection in memory; the client's certificate as getpeercert says it."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(down, up, server_hostname="self")
    server = server_context.wrap_bio(up, down, server_side=True)
    waiting = [client, server]
    for _ in range(10):             # flights; TLS 1.3 has three, 1.2 four
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                pass
        if not waiting:
            return server.getpeercert()
    raise ssl.SSLError("the handshake does not end")


def _read(path):
    try:
        with open(path, "rb") as f:
            mode = os.fstat(f.fileno()).st_mode
            data = f.read(LARGEST + 1)
    except OSError as e:
        raise type(errors.of_os_error(e))(None, None, (
            f"certificates: {path}: {e.strerror}. Expected a folder with {', '.join(FILES)}: "
            "python -m pyflow cluster make-certificates FOLDER makes one")) from None
    if len(data) > LARGEST:
        raise errors.InvalidArgumentError(None, None, f"certificates: {path} has over {LARGEST} "
                                          "bytes: it is no certificate and no key")
    if path.endswith(".key") and mode & stat.S_IRWXO:
        raise errors.PermissionDeniedError(None, None, (
            f"certificates: everybody may read the key {path} (mode {stat.S_IMODE(mode):04o}): "
            f"chmod 600 {path}, and make new ones if it may have been read"))
    return data


PUBLIC = {}
