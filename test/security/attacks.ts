/** What a malicious function tries; each attack returns "done: …" or "refused: …". */
export const ATTACKER = `
import ctypes, os, socket, stat, sys
from svc import Endpoint

libc = ctypes.CDLL(None, use_errno=True)

@Endpoint(name="bad", workers=(0, 2))
def bad(how, argument=None):
    try:
        return f"done: {globals()[how](argument)}"
    except Exception as error:
        return f"refused: {type(error).__name__} {error}"

@Endpoint(name="victim", workers=(0, 2))
def victim(what="who"):
    if what == "leave":
        for place in (os.environ["TMPDIR"], os.environ["HOME"], "/tmp", "/dev/shm"):
            with open(f"{place}/of-the-victim", "w") as file:
                file.write("secret of the victim")
        return [os.environ["TMPDIR"], os.environ["HOME"]]
    return [os.getuid(), os.getpid()]

def checked(result, what):
    if result < 0:
        raise OSError(ctypes.get_errno(), what)

def write(path):
    with open(path, "a") as file:
        file.write("# changed")

def read(path):
    with open(path, "rb") as file:
        return file.read(200)

def listing(path):
    return sorted(os.listdir(path))

def make(path):
    os.mkdir(path)

def package(_):
    import svc
    write(svc.__file__)

def interpreter(_):
    write(os.__file__)

def source(_):
    write(__file__)

def take_socket(path):
    os.rename(path, path + ".old")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen(5)

def socket_beside(path):
    socket.socket(socket.AF_UNIX).bind(path + ".mine")

def dial(address):
    socket.socket(socket.AF_UNIX).connect(address)

def dial_abstract(name):
    socket.socket(socket.AF_UNIX).connect("\\0" + name)

def devices(_):
    kinds = (stat.S_ISCHR, stat.S_ISBLK)
    found = [name for name in os.listdir("/dev") if any(kind(os.lstat("/dev/" + name).st_mode) for kind in kinds)]
    return ",".join(sorted(found))

def processes(_):
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with open(f"/proc/{name}/cmdline", "rb") as file:
                found.append(file.read().replace(b"\\0", b" ").decode())
    return "\\n".join(found)

def kill(pid):
    os.kill(pid, 9)

def kill_all(_):
    os.kill(-1, 9)

def trace(pid):
    checked(libc.ptrace(16, pid, 0, 0), "ptrace")

def mount(path):
    checked(libc.mount(b"none", path.encode(), b"tmpfs", 0, None), "mount")

def unmount(path):
    checked(libc.umount2(path.encode(), 2), "umount")

def remount(path):
    checked(libc.mount(b"none", path.encode(), None, ctypes.c_ulong(32 | 4096), None), "remount")

def remount_as_another(path):
    checked(libc.unshare(0x10000000 | 0x20000), "unshare")
    remount(path)

def disk(_):
    os.mknod("/tmp/disk", 0o600 | stat.S_IFBLK, os.makedev(8, 0))

def become_root(_):
    os.setuid(0)

def capabilities(_):
    with open("/proc/self/status") as file:
        return ",".join(line.split()[1] for line in file if line.startswith("Cap"))

def escape_by_descriptor(path):
    for number in os.listdir("/proc/self/fd"):
        try:
            held = os.open(f"/proc/self/fd/{number}/../../../../../../{path}", os.O_RDONLY)
            return os.read(held, 100)
        except OSError:
            pass
    raise OSError(2, "no way")

def through_process_1(path):
    return read("/proc/1/root" + path)

def usable(_):
    import grp, multiprocessing, pwd, subprocess, tempfile, pty
    with tempfile.TemporaryFile() as file:
        file.write(b"x")
    for place in (os.environ["HOME"], "/tmp", "/var/tmp", "/dev/shm", os.environ["TMPDIR"]):
        with open(f"{place}/mine", "w") as file:
            file.write("x")
    multiprocessing.Lock()
    with multiprocessing.Pool(2) as pool:
        assert pool.map(abs, [-1]) == [1]
    pty.openpty()
    with open("/dev/null", "w") as nothing:
        nothing.write("x")
    said = subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, text=True)
    assert said.stdout == "1\\n", said
    socket.getaddrinfo("localhost", 80)
    me = pwd.getpwuid(os.getuid())
    assert os.path.realpath(me.pw_dir) == os.path.realpath(os.path.expanduser("~")), me
    assert pwd.getpwnam("root").pw_uid == 0 and grp.getgrgid(os.getgid())
    said = subprocess.run(["id"], capture_output=True, text=True)
    assert "(" in said.stdout.split(" ")[0] and not said.stderr, said
    return "all"
`;
