"""Serving models over HTTP: TensorFlow Serving's REST API, `python -m pyflow serve DIR`.

    refusals.py   what an error is in HTTP: status codes, {"error": ...}
    json_text.py  JSON to values and arrays to JSON, with NaN and Infinity
    tensors.py    JSON values to arrays of an input's type and shape, checked
    bodies.py     bodies of predict, classify and regress, and their answers
    endpoint.py   one signature of a graph in a session: arrays in, arrays out
    servable.py   one version of a model: loaded, used, drained, closed
    batching.py   requests joined along their first dimension
    models.py     a model's folder: its versions, which one serves, loading a new one
    app.py        the ASGI application: paths, limits, deadlines
    server.py     uvicorn around it: socket, signals, end
    protocol.py   its protocol, with limits for heads

Threads: everything runs on the event loop's thread, but for steps of sessions, which run on the
executor's, and loading, which has a thread of its own. Objects are changed on the loop's thread
only, so there are no locks.

Dependencies: saved_model; tools has the command. uvicorn, httptools and orjson are optional ones:
protocol.py and server.py alone import the first two, json_text.py does without the third.
"""
