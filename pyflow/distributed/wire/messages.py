"""What masters, workers and clients tell each other; see framework/protos.py for the form.

Invariants
1. The package is `pyflow.distributed`, in a descriptor pool of its own: no clash with TensorFlow's.
2. GraphDef, ConfigProto and the like travel as bytes, read where they are needed and checked there.
3. Numbers of fields are never used again for something else.

    from pyflow.distributed.wire import messages
    messages.RunGraphRequest(graph=1, session=2, step=3).SerializeToString()

Threads: any may use the classes; one message is for one thread.
"""
from pyflow.framework import protos

PACKAGE = "pyflow.distributed"
TABLE = """
TensorMessage: 1 dtype int32; 2 shape *int64; 3 content bytes; 4 strings *bytes; 5 dead bool; 6
    linked bool
ErrorMessage: 1 code int32; 2 message string; 3 node string; 4 op string; 5 device string; 6 task
    string; 7 derived bool; 8 explained bool
Empty: 1 unused bool
DeviceMessage: 1 name string; 2 priority int32; 3 memory_limit int64; 4 core_name string
KernelMessage: 1 op string; 2 device string; 3 where string
PluginMessage: 1 id string; 2 version string
GetStatusRequest: 1 kernels bool
GetStatusResponse: 1 task string; 2 incarnation uint64; 3 device *DeviceMessage; 4 kernels_digest
    bytes; 5 kernel *KernelMessage; 6 plugin *PluginMessage; 7 process bytes; 8 epoch uint64; 9
    steps_open int64; 10 steps_early int64; 11 early_bytes int64; 12 sessions int64; 13 graphs
    int64; 14 version string; 15 clock_ns int64; 16 steps_done int64; 17 address string; 18 pid
    int64; 19 lease double; 20 link *string; 21 cluster_def bytes; 22 host string;
    23 timeout *TimeoutMessage; 24 route *RouteMessage; 25 steps_running int64; 26
    boot string; 27 layout LayoutMessage
LayoutMessage: 1 number int64; 2 asked *string; 3 meant *string
TimeoutMessage: 1 name string; 2 seconds double; 3 what string
SessionRequest: 1 session uint64; 2 isolate bool; 3 master string; 4 route *RouteMessage; 5 config
    bytes; 6 lease double; 7 incarnation uint64; 8 epoch uint64; 9 master_incarnation uint64
RouteMessage: 1 task string; 2 incarnation uint64; 3 address string; 4 link *string; 5 kind string
RegisterGraphRequest: 1 session uint64; 2 graph bytes; 3 options bytes; 4 const_name string; 5
    const_dtype int32; 6 const_shape *int64; 7 const_bytes bytes; 8 incarnation uint64; 9 deterministic bool; 10 op *string; 11
    route *RouteMessage; 12 call uint64
RegisterGraphResponse: 1 graph uint64
DeregisterGraphRequest: 1 session uint64; 2 graph *uint64
RunGraphRequest: 1 session uint64; 2 graph uint64; 3 step uint64; 4 arg *TensorMessage; 5
    timeout_ms int64; 6 trace int32; 7 clean *uint64; 8 incarnation uint64
RunGraphResponse: 1 ret *TensorMessage; 2 error ErrorMessage; 3 step_stats bytes
CleanupGraphRequest: 1 session uint64; 2 step *uint64; 3 error ErrorMessage
ConnectMessage: 1 number uint64; 2 run RunGraphRequest @what; 3 clean CleanupGraphRequest @what; 5
    cancel bool @what; 6 ran RunGraphResponse @what; 7 error ErrorMessage @what; 8 hello
    HelloMessage @what; 9 touch TouchMessage @what
TouchMessage: 1 session *uint64
HelloMessage: 1 task string; 2 incarnation uint64; 3 expected uint64; 4 epoch uint64
StateRequest: 1 session uint64; 2 streams bytes; 3 set bool; 4 forget *string; 5 kept string; 6 seek
    bool; 7 position uint64; 8 shard uint64
StateResponse: 1 streams bytes; 2 kept TensorMessage; 3 found bool
ResetRequest: 1 container *string; 2 incarnation uint64; 3 call uint64; 4 sessions bool;
    5 master string; 6 epoch uint64; 7 master_incarnation uint64
ReshardRequest: 1 job string; 2 servers int32; 3 seconds double
ReshardResponse: 1 before int32; 2 servers int32; 3 bytes int64; 4 copied double; 5 seconds double
WaitsRequest: 1 session uint64; 2 sender *string; 3 step uint64; 4 node *string; 5 resource
    *string; 6 key *string; 7 end *string
WaitsResponse: 1 task string; 2 incarnation uint64; 4 step *MasterStep; 5 known *bool; 6 place
    *PlaceMessage; 7 partner *PartnerMessage; 8 open *OpenRow; 9 key *KeyRow; 10 run *RunRow; 11
    call *CallRow; 12 block *BlockRow; 13 node *NodeRow; 14 resource *ResourceRow; 15 use *UseRow;
    16 source *SourceRow; 17 cut bool; 18 session *SessionRow; 19 edge *EdgeMessage
EdgeMessage: 1 key string; 2 task string; 3 send string; 4 recv string; 5 tensor string; 6 frame
    string; 7 to string
OpenRow: 1 session uint64; 2 step uint64; 3 seconds double; 4 begun bool; 5 early_bytes int64; 6
    failure string
KeyRow: 1 session uint64; 2 step uint64; 3 seconds double; 4 awaited bool; 5 bytes int64; 6 key
    string
RunRow: 1 session uint64; 2 step uint64; 3 id int64; 4 seconds double; 5 nodes int64; 6 depth int64
CallRow: 1 session uint64; 2 step uint64; 3 id int64; 4 seconds double; 5 node string; 6 op string;
    7 resource string; 8 role int32
BlockRow: 1 session uint64; 2 step uint64; 3 id int64; 4 number int64; 5 missing int64; 6 node
    string; 7 op string; 8 successor *int64
NodeRow: 1 session uint64; 2 step uint64; 3 id int64; 4 block int64; 5 node string; 6 op string
ResourceRow: 1 name string; 2 takes string; 3 puts string; 4 there int64; 5 needed int64; 6 held
    bool; 7 works bool
UseRow: 1 resource string; 2 session uint64; 3 step uint64; 4 seconds double; 5 node string; 6 op
    string; 7 role int32; 8 times int64
SourceRow: 1 resource string; 2 number int64
SessionRow: 1 number uint64; 2 master string; 3 client string
MasterStep: 1 session uint64; 2 step uint64; 3 seconds double; 4 part *MasterPart; 5 fetch *string
MasterPart: 1 task string; 2 begun bool; 3 ended bool
PlaceMessage: 1 node string; 2 op string; 3 line string
PartnerMessage: 1 resource string; 2 node string; 3 op string; 4 line string; 5 device string; 6
    session uint64; 7 role int32
ClockResponse: 1 wall_ns int64; 2 monotonic_ns int64; 3 boot string
ByeRequest: 1 why string; 2 sender string; 3 incarnation uint64; 4 epoch uint64
ReadyRequest: 1 task string; 2 incarnation uint64; 3 address string
TracingRequest: 1 steps int64; 2 stop bool
TracingResponse: 1 step *TracedStep; 2 left_out int64
TracedStep: 1 session uint64; 2 step uint64; 3 step_stats bytes
CreateSessionRequest: 1 graph_def bytes; 2 config bytes; 3 origin *bytes; 4 deterministic bool; 5
    lease double; 6 threads int32; 7 process bytes; 8 call uint64; 9 client string
CreateSessionResponse: 1 session string; 2 version uint64; 3 timeout_ms int64
ExtendSessionRequest: 1 session string; 2 graph_def bytes; 3 origin *bytes; 4 version uint64
MakeCallableRequest: 1 session string; 2 feed *string; 3 fetch *string; 4 target *string; 5 version
    uint64; 6 joined *JoinedMessage; 7 explain bool; 8 call uint64; 9 client string
JoinedMessage: 1 tensor string; 2 reads string
MakeCallableResponse: 1 callable uint64; 2 graph *bytes; 3 here RouteMessage; 4 served uint64; 5
    number uint64; 6 ways string
RunCallableRequest: 1 session string; 2 callable uint64; 3 feed *TensorMessage; 4 timeout_ms int64;
    5 trace int32; 6 call uint64; 7 step uint64
RunCallableResponse: 1 fetch *TensorMessage; 2 step_stats bytes
ReleaseCallableRequest: 1 session string; 2 callable *uint64
PartialRunSetupRequest: 1 session string; 2 feed *string; 3 fetch *string; 4 target *string; 5
    version uint64; 6 call uint64; 7 client string
PartialRunSetupResponse: 1 handle string; 2 here RouteMessage; 3 number uint64
PartialRunRequest: 1 session string; 2 handle string; 3 feed *string; 4 value *TensorMessage; 5
    fetch *string; 6 target *string; 7 timeout_ms int64; 8 call uint64; 9 step uint64
PartialRunResponse: 1 fetch *TensorMessage
CloseSessionRequest: 1 session string
ListDevicesRequest: 1 session string
ListDevicesResponse: 1 device *DeviceMessage; 2 incarnation *uint64
SessionStateRequest: 1 session string; 2 streams bytes; 3 set bool; 4 forget *string; 5 kept string;
    6 cancel string; 7 seek bool; 8 position uint64; 9 shard uint64; 10 everywhere bool
"""

_pool, _names = protos.build(TABLE, "pyflow/distributed.proto", PACKAGE)
__all__ = sorted(_names)


def __getattr__(name):
    """Message classes, made at their first use."""
    if name not in _names:
        raise AttributeError(f"pyflow.distributed.wire.messages has no message {name!r}")
    found = globals()[name] = protos.message_class(_pool, PACKAGE, name, __name__)
    return found
