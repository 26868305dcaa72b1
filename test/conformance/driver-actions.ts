/** What the workers of the driver's conformance suite can be asked to do. */
export const ACTIONS = `
import os, signal, subprocess, sys, tempfile, time

def act(do: str, value=None):
    return globals()["do_" + do](value)

def do_echo(value):
    return value

def do_pid(value):
    return os.getpid()

def do_env(value):
    return dict(os.environ)

def do_where(value):
    return {"cwd": os.getcwd(), "temp": tempfile.gettempdir(), "source": os.path.dirname(os.path.abspath(__file__))}

def do_keep(text):
    path = os.path.join(tempfile.gettempdir(), "kept.txt")
    with open(path, "w") as file:
        file.write(text)
    return path

def do_exists(path):
    return os.path.exists(path)

def do_find(arguments):
    """Files below a folder that hold a text."""
    found = []
    for folder, _, names in os.walk(arguments["below"]):
        for name in names:
            try:
                with open(os.path.join(folder, name), "rb") as file:
                    if arguments["text"].encode() in file.read():
                        found.append(os.path.join(folder, name))
            except OSError:
                pass
    return found

def do_read(path):
    with open(path) as file:
        return file.read()

def do_write(path):
    with open(path, "a") as file:
        file.write("x")

def do_module(name):
    return getattr(__import__(name), "ANSWER", None)

def do_change_source(value):
    with open(__file__, "a") as file:
        file.write("# changed")

def do_exit(code):
    os._exit(code)

def do_signal(number):
    os.kill(os.getpid(), number)
    time.sleep(10)

def do_eat(gigabytes):
    eaten = []
    for _ in range(gigabytes * 16):
        eaten.append(b"x" * (1 << 26))
    return len(eaten)

def do_share(gigabytes):
    """Memory that no limit of the process itself counts."""
    import mmap
    shared = mmap.mmap(-1, gigabytes << 30)
    for at in range(0, gigabytes << 30, 1 << 20):
        shared[at:at + (1 << 20)] = b"x" * (1 << 20)
    return "it got it"

def do_term_while_reading(value):
    """From the next read on, SIGTERM comes in the midst of each that no job waits for."""
    import gc
    connection = next(found for found in gc.get_objects() if type(found).__name__ == "Connection" and found.up)
    sock = connection._sock
    layer = getattr(sock, "_tls", None)
    class Interrupted:
        def __getattr__(self, name):
            return getattr(layer or sock, name)
        def interrupt(self):
            if not connection.unacknowledged:
                signal.raise_signal(signal.SIGTERM)
        def read(self, size):
            self.interrupt()
            return layer.read(size)
        def recv(self, *arguments):
            self.interrupt()
            return sock.recv(*arguments)
    if layer is None:
        connection._sock = Interrupted()
    else:
        sock._tls = Interrupted()

def do_ignore_term(value):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("ignoring", flush=True)
    time.sleep(60)

def do_leave_child(value):
    code = "import os, time; os.setsid(); print(os.getpid(), flush=True); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    return int(child.stdout.readline())

def do_alive(pid):
    return os.path.exists(f"/proc/{pid}")

def do_slow(seconds):
    time.sleep(seconds)
    return "done"
`;
