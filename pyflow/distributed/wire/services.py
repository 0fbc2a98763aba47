"""The calls of the two services: {call: (request, reply, kind)}, as rpc.py takes them.

MasterService serves clients, WorkerService masters and other workers; names are TensorFlow's.
"""
MASTER = {
    "CreateSession": ("CreateSessionRequest", "CreateSessionResponse", "unary"),
    "ExtendSession": ("ExtendSessionRequest", "Empty", "unary"),
    "MakeCallable": ("MakeCallableRequest", "MakeCallableResponse", "unary"),
    "RunCallable": ("RunCallableRequest", "RunCallableResponse", "unary"),
    "ReleaseCallable": ("ReleaseCallableRequest", "Empty", "unary"),
    "PartialRunSetup": ("PartialRunSetupRequest", "PartialRunSetupResponse", "unary"),
    "PartialRun": ("PartialRunRequest", "PartialRunResponse", "unary"),
    "CloseSession": ("CloseSessionRequest", "Empty", "unary"),
    "ListDevices": ("ListDevicesRequest", "ListDevicesResponse", "unary"),
    "SessionState": ("SessionStateRequest", "StateResponse", "unary"),
    "KeepAlive": ("CloseSessionRequest", "Empty", "unary"),
    "Life": ("CloseSessionRequest", "Empty", "from"),
    "Reset": ("ResetRequest", "Empty", "unary"),
}
WORKER = {
    "GetStatus": ("GetStatusRequest", "GetStatusResponse", "unary"),
    "CreateWorkerSession": ("SessionRequest", "Empty", "unary"),
    "DeleteWorkerSession": ("SessionRequest", "Empty", "unary"),
    "RegisterGraph": ("RegisterGraphRequest", "RegisterGraphResponse", "to"),
    "DeregisterGraph": ("DeregisterGraphRequest", "Empty", "unary"),
    "CleanupGraph": ("CleanupGraphRequest", "Empty", "unary"),
    "WorkerState": ("StateRequest", "StateResponse", "unary"),
    "CleanupAll": ("ResetRequest", "Empty", "unary"),
    "GetWaits": ("WaitsRequest", "WaitsResponse", "unary"),
    "Clock": ("Empty", "ClockResponse", "unary"),
    "Tracing": ("TracingRequest", "TracingResponse", "unary"),
    "Reshard": ("ReshardRequest", "ReshardResponse", "unary"),
    "Ready": ("ReadyRequest", "Empty", "unary"),
    "Bye": ("ByeRequest", "Empty", "unary"),
    "Follow": ("Empty", "Empty", "from"),
    "Become": ("RouteMessage", "RouteMessage", "unary"),
    "Connect": ("ConnectMessage", "ConnectMessage", "both"),
    "Link": ("", "", "both"),
}
