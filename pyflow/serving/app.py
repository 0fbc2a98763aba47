"""The ASGI application: paths, limits, deadlines; any ASGI server runs it.

    GET  /v1/models/NAME[/versions/N|/labels/LABEL]             what state versions are in
    GET  /v1/models/NAME[/versions/N|/labels/LABEL]/metadata    signatures
    POST /v1/models/NAME[/versions/N|/labels/LABEL]:predict     and :classify, :regress
    GET  /healthz                                               200 while every model answers

Invariants
    1. A body is read only if there is room: of at most `max_body` bytes, all that are held at once
       of at most HELD times as many, and of at most concurrency + queue requests.
    2. Every answer is JSON, errors as {"error": text}; what was not meant to fail is logged with
       its traceback, and the client is told no more than that.
    3. A request keeps the version it began with.

Threads: the event loop's.

    app = App({"half": model}, Runner(Batching()), Limits())
    uvicorn.run(app)
"""
import asyncio
import concurrent.futures
import logging
import re
import time
import urllib.parse
from typing import NamedTuple

from pyflow.serving import bodies, json_text, refusals

_log = logging.getLogger("pyflow")
HELD = 8                # bodies of the largest size at once
TIMEOUT_HEADER = b"x-timeout-ms"

_MODEL = r"/v1/models/([^/:]+)(?:/versions/(\d+)|/labels/([^/:]+))?"
_ASK = re.compile(_MODEL + r":(classify|regress|predict)", re.I)
_LOOK = re.compile(_MODEL + r"(/metadata)?", re.I)


class Limits(NamedTuple):
    """max_body: bytes. queue: requests that may wait beside those that run. timeout: seconds a
    request may take, None for any. poll: seconds between looks for new versions, 0 for none."""

    max_body: int = 32 << 20
    queue: int = 1000
    timeout: float | None = 60.0
    poll: float = 1.0


class App:
    """Answers for `models`, {name: ServedModel}, by `runner`."""

    def __init__(self, models, runner, limits=Limits()):
        self._models, self._runner, self._limits = models, runner, limits
        self._most = runner.options.concurrency + limits.queue
        self._requests = self._held = 0
        self._loader = concurrent.futures.ThreadPoolExecutor(1, "pyflow-load")
        self._poller = None

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            status, value, headers = await self._answer(scope, receive)
            body = json_text.write(value) if type(value) is not bytes else value
            await send({"type": "http.response.start", "status": status, "headers": [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()), *headers]})
            await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope, receive):
        """(status, JSON value or text, headers)."""
        try:
            return 200, await self._routed(scope, receive), []
        except Exception as e:  # noqa: BLE001  no request ends the server
            known = refusals.status_and_message(e)
            if known is None:
                _log.exception("%s %s", scope["method"], scope["path"])
                return 500, {"error": "internal error; the server's log has it"}, []
            return known[0], {"error": known[1]}, [*getattr(e, "headers", []), *_closing(scope)]

    async def _routed(self, scope, receive):
        method, path = scope["method"], scope["raw_path"].decode("latin-1")
        if method not in ("GET", "POST"):
            raise refusals.Refused(405, f"{method} is not served; GET and POST are",
                                   [(b"allow", b"GET, POST")])
        if path == "/healthz" and method == "GET":
            return self._health()
        if method == "GET" and (found := _LOOK.fullmatch(path)):
            return self._look(*found.groups())
        if method == "POST" and (found := _ASK.fullmatch(path)):
            return await self._ask(scope, receive, *found.groups())
        if path.lower().startswith("/v1/"):
            raise refusals.Refused(400, f"Malformed request: {method} {path[:200]}")
        raise refusals.Refused(404, f"nothing is at {path[:200]}")

    # ------------------------------------------------------------ GET

    def _health(self):
        for name, model in self._models.items():
            if not model.serving():
                raise refusals.busy(f"model {name!r} has no version that serves")
        return {"status": "ok"}

    def _model(self, name):
        name = urllib.parse.unquote(name)
        if name not in self._models:
            from pyflow.framework import errors
            raise errors.NotFoundError(
                None, None, f"no model {name!r}; there are {', '.join(self._models)}")
        return self._models[name]

    def _look(self, name, version, label, metadata):
        model = self._model(name)
        asked = _version(version), label and urllib.parse.unquote(label)
        if not metadata:
            return model.status(*asked)
        number, servable = model.find(*asked)
        return {"model_spec": {"name": model.name, "signature_name": "", "version": str(number)},
                "metadata": {"signature_def": {"signature_def": servable.metadata()}}}

    # ------------------------------------------------------------ POST

    async def _ask(self, scope, receive, name, version, label, method):
        model = self._model(name)
        headers = _headers(scope)
        deadline = self._deadline(headers)
        if self._requests >= self._most:
            raise refusals.busy(f"{self._requests} requests are waiting or running, no more can")
        body = _Body(self, headers)
        self._requests += 1
        try:
            request = json_text.read(await body.read(receive, deadline))
            asked = bodies.signature_name(request)
            _, servable = model.find(_version(version), label and urllib.parse.unquote(label))
            return await self._run(servable, servable.endpoint(asked), request, method.lower(),
                                   deadline)
        finally:
            self._requests -= 1
            self._held -= body.held

    async def _run(self, servable, endpoint, request, method, deadline):
        if method == "predict":
            arrays, rows = bodies.predict_feeds(request, endpoint)
            results = await self._runner.run(servable, endpoint, arrays, deadline)
            return json_text.write(bodies.predict_answer(results, endpoint, rows))
        arrays = bodies.example_feeds(request, endpoint)
        results = await self._runner.run(servable, endpoint, arrays, deadline)
        answer = bodies.classify_answer if method == "classify" else bodies.regress_answer
        return answer(results, endpoint, len(request["examples"]))

    def _deadline(self, headers):
        """On time.monotonic(): the header's, at most the server's; None: none."""
        seconds, text = self._limits.timeout, headers.get(TIMEOUT_HEADER)
        if text is not None:
            if not re.fullmatch(rb"\d{1,9}(\.\d{1,9})?", text) or not float(text):
                raise refusals.bad(f"{TIMEOUT_HEADER.decode()}: expected milliseconds, got "
                                   f"{text[:40].decode('latin-1')!r}")
            asked = float(text) / 1000
            seconds = asked if seconds is None else min(seconds, asked)
        return None if seconds is None else time.monotonic() + seconds

    # ------------------------------------------------------------ its life

    async def start(self):
        """Loads what is there. RuntimeError if a model has no version that can be loaded."""
        for model in self._models.values():
            await model.refresh(self._loader)
            if not model.serving():
                failed = model.status()["model_version_status"]
                why = failed[0]["status"]["error_message"] if failed else (
                    "there is no saved_model.pb in it or in a folder below it named by a number")
                raise RuntimeError(f"model {model.name}: {model.path}: {why}")

    async def _live(self, receive, send):
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                if self._limits.poll:
                    self._poller = asyncio.create_task(self._poll())
            else:
                await self.stop()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return

    async def _poll(self):
        while True:
            await asyncio.sleep(self._limits.poll)
            for model in self._models.values():
                try:
                    await model.refresh(self._loader)
                except Exception:  # noqa: BLE001  the next look may go well
                    _log.exception("model %s: its folder could not be looked at", model.name)

    async def stop(self):
        """Waits for steps and ends sessions; no request comes any more."""
        if self._poller is not None:
            self._poller.cancel()
        await asyncio.get_running_loop().run_in_executor(None, self._end)

    def _end(self):
        self._runner.close()
        self._loader.shutdown(wait=True)
        for model in self._models.values():
            model.close()


_SMALL = 64 << 10        # bytes of a body that is worth reading on to keep the connection


def _closing(scope):
    """The header that ends the connection, where a large body may be still to come."""
    headers = _headers(scope)
    size = headers.get(b"content-length", b"0")
    if b"transfer-encoding" in headers or int(size) > _SMALL:
        return [(b"connection", b"close")]
    return []


def _version(text):
    if text is not None and len(text) > 18:
        raise refusals.bad(f"version {text[:40]} is too large")
    return None if text is None else int(text)


def _headers(scope):
    return dict(scope["headers"])


class _Body:
    """A request's body, read within the application's limits."""

    def __init__(self, app, headers):
        self._app, self._most = app, app._limits.max_body
        self.held = 0
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise refusals.Refused(415, "content-encoding: bodies are read as they are, not "
                                   "compressed")
        self._declared = int(headers.get(b"content-length", b"0"))
        if self._declared > self._most:
            raise self._too_large()

    def _too_large(self):
        return refusals.Refused(
            413, f"the body has more than {self._most} bytes, the most that is read")

    async def read(self, receive, deadline):
        """The bytes. Refused: 413, 503 without room, 408 at the deadline."""
        self._hold(self._declared)
        message = None
        try:
            async with asyncio.timeout(deadline and max(0.0, deadline - time.monotonic())):
                parts, size = [], 0
                while message is None or message.get("more_body"):
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise refusals.Refused(499, "the client went away")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    self._hold(size)
        except TimeoutError:
            raise refusals.Refused(408, "the body did not come within the deadline",
                                   [(b"connection", b"close")]) from None
        return b"".join(parts)

    def _hold(self, size):
        if size > self._most:
            raise self._too_large()
        if size > self.held:
            self._app._held += size - self.held
            self.held = size
        if self._app._held > HELD * self._most:
            raise refusals.busy("too many large bodies are being read")
