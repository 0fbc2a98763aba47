"""python -m pyflow devices: what this installation can run on."""
import argparse
import platform

from pyflow.tools import as_json


def main(argv):
    """Prints devices, threads, plugins (quarantined ones with the reason)."""
    parser = argparse.ArgumentParser(prog="python -m pyflow devices", description=__doc__)
    as_json.add_option(parser)
    args = parser.parse_args(argv)
    found = facts()
    if args.json:
        as_json.show(found)
    else:
        _print(found)
    return 0


def facts():
    """What is printed, as an object of JSON's types."""
    import pyflow
    from pyflow import plugins
    from pyflow.session import runtime, threads
    executor = runtime.start()
    return {
        "pyflow": pyflow.pyflow_version, "abi": list(plugins.HOST_ABI),
        "python": platform.python_version(), "machine": platform.machine(),
        "threads": threads.available_threads(),
        "devices": [{"name": f"/device:{kind}:{ordinal}", "description": name}
                    for kind, ordinal, name in executor.devices()],
        "absent": [{"kind": kind, "reason": reason}
                   for kind, reason in executor.absent_devices()],
        "plugins": [_of_plugin(plugin, executor) for plugin in plugins.load_all()]}


def _of_plugin(plugin, executor):
    if plugin.problem:
        return {"origin": plugin.origin, "problem": plugin.problem}
    return {"id": plugin.id, "version": plugin.version, "origin": plugin.origin,
            "path": str(plugin.path),
            "kernels": sum(k["plugin"] == plugin.id for k in executor.kernels()),
            "links": list(plugin.links),
            "pairs": [pair["name"] for pair in plugin.description.get("pairs", ())]}


def _print(found):
    major, minor = found["abi"]
    print(f"pyflow {found['pyflow']}, kernel ABI v{major}.{minor}, Python {found['python']}, "
          f"{found['machine']}")
    print(f"threads: {found['threads']} (affinity and cgroup quota; set PYFLOW_THREADS or"
          " Session(threads=))")
    print("devices:")
    for device in found["devices"]:
        print(f"  {device['name']}  {device['description']}")
    for absent in found["absent"]:
        print(f"  no {absent['kind']}: {absent['reason']}")
    print("plugins:")
    for plugin in found["plugins"]:
        if "problem" in plugin:
            print(f"  {plugin['origin']}: NOT USED: {plugin['problem']}")
            continue
        count = f"{plugin['kernels']} kernel{'s' * (plugin['kernels'] != 1)}"
        count += "".join(f", link {kind}" for kind in plugin["links"])
        count += "".join(f", pair {name}" for name in plugin["pairs"])
        print(f"  {plugin['id']} {plugin['version']} from {plugin['origin']}: {count}\n"
              f"    {plugin['path']}")
    if not found["plugins"]:
        print("  none: no installed distribution has an entry point in the group 'pyflow.plugins'")
