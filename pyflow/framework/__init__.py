"""The graph layer: types, shapes, errors, graphs, operations, schemas and the GraphDef format.

Nothing here runs a graph, and nothing here imports google.protobuf, cffi or ml_dtypes until a
caller needs them. Import what you need from the modules; this package re-exports nothing, so that
`import pyflow` pays only for what it uses.
"""
