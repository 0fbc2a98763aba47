"""What tasks say to each other, and by which way: messages, tensors, calls over gRPC, links, routes,
and who may.

The lowest room of pyflow.distributed: it imports none of the others.
"""
