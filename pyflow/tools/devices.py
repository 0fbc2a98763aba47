"""python -m pyflow devices: what this installation can run on."""
import argparse
import platform


def main(argv):
    """Prints devices, threads, plugins (quarantined ones with the reason)."""
    argparse.ArgumentParser(prog="python -m pyflow devices", description=__doc__).parse_args(argv)
    import pyflow
    from pyflow import plugins
    from pyflow.session import runtime, threads
    executor = runtime.start()
    print(
        f"pyflow {pyflow.pyflow_version}, kernel ABI v{plugins.HOST_ABI[0]}.{plugins.HOST_ABI[1]},"
        f" Python {platform.python_version()}, {platform.machine()}"
    )
    print(
        f"threads: {threads.available_threads()} (affinity and cgroup quota; set PYFLOW_THREADS or"
        " Session(threads=))"
    )
    print("devices:")
    for kind, ordinal, name in executor.devices():
        print(f"  /device:{kind}:{ordinal}  {name}")
    for kind, reason in executor.absent_devices():
        print(f"  no {kind}: {reason}")
    print("plugins:")
    for plugin in plugins.load_all():
        if plugin.problem:
            print(f"  {plugin.origin}: NOT USED: {plugin.problem}")
        else:
            kernels = sum(k["plugin"] == plugin.id for k in executor.kernels())
            count = f"{kernels} kernel{'s' * (kernels != 1)}"
            count += "".join(f", link {kind}" for kind in plugin.links)
            count += "".join(f", pair {p['name']}" for p in plugin.description.get("pairs", ()))
            print(f"  {plugin.id} {plugin.version} from {plugin.origin}: {count}\n    {plugin.path}")
    if not plugins.load_all():
        print("  none: no installed distribution has an entry point in the group 'pyflow.plugins'")
    return 0
