"""What all tests share: Ctrl-C works even where the shell started us with SIGINT ignored (a background job, some CI)."""
import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
