#!/usr/bin/env python3
"""Several hosts on one machine: network namespaces, each with a host name and address of its own.

    tests/hosts/hosts.py run --hosts 2 --ranks-per-host 2 --latency-ms 5 --loss 0.1 -- PROGRAM ARGS

Open MPI starts its daemons in them as it does on real machines, through a remote shell, which here
is a script that enters a namespace; ranks on different hosts meet over TCP alone. Rank r runs on
host r / ranks-per-host; mpirun itself on the first. The exit code is mpirun's.

Without latency and loss the hosts hang on a kernel bridge. With them, on a switch of our own: each
host's network card is a tap device whose other end is read here, so that frames can be held back
and lost where the kernel has no netem. Both can cut a host's cable, silently, and mend it.

A process that outlives this one, the janitor, takes everything down when this one ends, however it
does. Needs root, ip, unshare and Open MPI; exits with 77 (skipped) and the reason without them.
Only the standard library; `Hosts` is for other tests.
"""

import argparse
import fcntl
import heapq
import itertools
import os
import random
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

SKIPPED = 77
CARD = "eth0"  # in each host
PREFIX = "chi"  # of everything made here: chi<pid>h<host>, chi<pid>br, ...


class Unavailable(Exception):
    """Hosts cannot be made here; the text says why."""


def call(*words, check=True):
    result = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    if check and result.returncode != 0:
        raise Unavailable(f"'{' '.join(map(str, words))}' failed: {result.stderr.strip()}")
    return result.stdout


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# ---- taking down ------------------------------------------------------------------------------


def namespaces(owner=r"\d+"):
    """Names of the namespaces made by a process, or by any."""
    names = (line.split()[0] for line in call("ip", "netns", "list", check=False).splitlines())
    return [name for name in names if re.fullmatch(f"{PREFIX}{owner}h\\d+", name)]


def take_down(owner):
    """Ends what runs in the hosts of a process, and removes them. Whatever is there; never fails.
    A namespace's own cable would go with it, but later; so a namespace goes last of what it has."""
    call("ip", "link", "delete", f"{PREFIX}{owner}br", check=False)
    for name in namespaces(owner):
        for pid in call("ip", "netns", "pids", name, check=False).split():
            try:
                os.kill(int(pid), signal.SIGKILL)
            except OSError:
                pass
        call("ip", "link", "delete", f"{PREFIX}{owner}v{name.rpartition('h')[2]}", check=False)
        shutil.rmtree(f"/etc/netns/{name}", ignore_errors=True)
        call("ip", "netns", "delete", name, check=False)


def sweep():
    """Takes down what runs that are over have left: the janitor may have been killed too."""
    for name in namespaces():
        owner = int(re.match(f"{PREFIX}(\\d+)h", name).group(1))
        if not is_alive(owner):
            take_down(owner)


def start_janitor(folder):
    """Returns its pid, and the end of a pipe: when that is closed, the janitor takes all down."""
    owner = os.getpid()
    ears, leash = os.pipe()
    pid = os.fork()
    if pid > 0:
        os.close(ears)
        return pid, leash
    try:
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.close(leash)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):  # whoever waits for our output does not wait for the janitor
            os.dup2(null, stream)
        os.read(ears, 1)
        take_down(owner)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os._exit(0)


# ---- the switch -------------------------------------------------------------------------------


class Switch(threading.Thread):
    """Carries frames between tap devices, late and not all of them. Learns no addresses: it has a
    handful of ports, so each frame goes to all others, and their kernels drop what is not theirs."""

    TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000

    def __init__(self, latency_s, loss, seed=1):
        super().__init__(daemon=True)
        self.latency_s, self.loss = latency_s, loss
        self.random = random.Random(seed)
        self.ports = []
        self.cut = set()  # ports; changed by other threads, one operation at a time
        self.wake, self.stop_pipe = os.pipe()

    def add_port(self, name):
        try:
            port = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            flags = self.IFF_TAP | self.IFF_NO_PI
            fcntl.ioctl(port, self.TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
        except OSError as error:
            raise Unavailable(f"no tap devices here: {error}") from error
        self.ports.append(port)

    def run(self):
        order = itertools.count()  # frames of one time stay in order
        late = []  # heap of (due, order, port, frame)
        while True:
            wait_s = max(0, late[0][0] - time.monotonic()) if late else None
            ready, _, _ = select.select([self.wake, *self.ports], [], [], wait_s)
            if self.wake in ready:
                break
            now = time.monotonic()
            for port in ready:
                for frame in self.frames(port):
                    if self.random.random() >= self.loss:
                        heapq.heappush(late, (now + self.latency_s, next(order), port, frame))
            while late and late[0][0] <= time.monotonic():
                _, _, source, frame = heapq.heappop(late)
                self.deliver(source, frame)
        for port in self.ports:
            os.close(port)

    @staticmethod
    def frames(port):
        for _ in range(64):  # and then the others
            try:
                yield os.read(port, 65536)
            except OSError:
                return

    def deliver(self, source, frame):
        if source in self.cut:
            return
        for port in self.ports:
            if port == source or port in self.cut:
                continue
            try:
                os.write(port, frame)
            except OSError:  # a full queue or a card that is down loses frames
                pass

    def stop(self):
        os.write(self.stop_pipe, b"!")  # closing it is not enough: the janitor has it too
        self.join()
        os.close(self.stop_pipe)
        os.close(self.wake)


# ---- hosts ------------------------------------------------------------------------------------


class Hosts:
    """with Hosts(2) as hosts: hosts.mpirun(ranks_per_host, [program, ...]) -> Popen."""

    def __init__(self, count, latency_ms=0.0, loss_percent=0.0):
        self.count = count
        self.switch = None
        if latency_ms > 0 or loss_percent > 0:
            self.switch = Switch(latency_ms / 1000, loss_percent / 100)
        self.own = f"{PREFIX}{os.getpid()}"
        self.names = [f"host{chr(ord('A') + i)}" for i in range(count)]
        self.addresses = [f"10.77.0.{i + 1}" for i in range(count)]

    def __enter__(self):
        self.refuse_if_unable()
        sweep()
        self.folder = Path(tempfile.mkdtemp(prefix="chimera-hosts-"))
        self.janitor, self.leash = start_janitor(self.folder)
        try:
            self.make_network()
            self.write_agent()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.switch and self.switch.is_alive():
            self.switch.stop()
        os.close(self.leash)
        os.waitpid(self.janitor, 0)

    @staticmethod
    def refuse_if_unable():
        if not sys.platform.startswith("linux") or os.geteuid() != 0:
            raise Unavailable("network namespaces need Linux and root")
        for tool in ("ip", "unshare", "hostname", "mpirun"):
            if not shutil.which(tool):
                raise Unavailable(f"there is no '{tool}'")

    def space(self, host):
        return f"{self.own}h{host}"

    def cable(self, host):
        """The device at our end of a host's cable."""
        return f"{self.own}v{host}"

    def make_network(self):
        if not self.switch:
            call("ip", "link", "add", f"{self.own}br", "type", "bridge")
            call("ip", "link", "set", f"{self.own}br", "up")
        for host in range(self.count):
            space, cable = self.space(host), self.cable(host)
            call("ip", "netns", "add", space)
            etc = Path("/etc/netns", space)  # `ip netns exec` puts it in the place of /etc
            etc.mkdir(parents=True)
            lines = [f"{a} {n}" for a, n in zip(self.addresses, self.names)]
            (etc / "hosts").write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
            if self.switch:
                self.switch.add_port(cable)
                call("ip", "link", "set", cable, "netns", space)
                call("ip", "-n", space, "link", "set", cable, "name", CARD)
            else:
                call("ip", "link", "add", cable, "type", "veth",
                     "peer", "name", CARD, "netns", space)
                call("ip", "link", "set", cable, "master", f"{self.own}br", "up")
            call("ip", "-n", space, "address", "add", f"{self.addresses[host]}/24", "dev", CARD)
            call("ip", "-n", space, "link", "set", CARD, "up")
            call("ip", "-n", space, "link", "set", "lo", "up")
        if self.switch:
            self.switch.start()

    def write_agent(self):
        """What mpirun takes for ssh: the name of a host, then words for its shell."""
        self.agent = self.folder / "agent"
        cases = "".join(f"  {n}) space={self.space(i)};;\n" for i, n in enumerate(self.names))
        self.agent.write_text(
            "#!/bin/sh\nname=$1\nshift\ncase $name in\n" + cases +
            '  *) echo "no host $name" >&2; exit 1;;\nesac\n'
            "exec ip netns exec $space unshare --uts sh -c "
            "'hostname \"$0\" && exec sh -c \"$1\"' $name \"$*\"\n")
        self.agent.chmod(0o755)

    def mpirun(self, ranks_per_host, command, **popen):
        """Starts the command on all hosts, from the first of them; a Popen of mpirun."""
        hosts = ",".join(f"{name}:{ranks_per_host}" for name in self.names)
        mca = {"plm": "rsh", "plm_rsh_agent": self.agent, "plm_rsh_no_tree_spawn": 1,
               "btl": "tcp,self", "pml": "ob1", "btl_tcp_if_include": CARD,
               "oob_tcp_if_include": CARD}
        words = ["mpirun", "--host", hosts, "-n", ranks_per_host * self.count,
                 "--bind-to", "none", "--map-by", "slot", "--oversubscribe"]
        for key, value in mca.items():
            words += ["--mca", key, value]
        enter = ["ip", "netns", "exec", self.space(0), "unshare", "--uts", "sh", "-c",
                 'hostname "$0" && exec "$@"', self.names[0]]
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **popen.pop("env", {})}
        return subprocess.Popen([str(w) for w in [*enter, *words, *command]],
                                env=environment, **popen)

    def cut(self, host):
        """Pulls a host's cable: what is sent from now on is lost, and nobody is told."""
        if self.switch:
            self.switch.cut.add(self.switch.ports[host])
        else:
            call("ip", "link", "set", self.cable(host), "down")

    def mend(self, host):
        if self.switch:
            self.switch.cut.discard(self.switch.ports[host])
        else:
            call("ip", "link", "set", self.cable(host), "up")


# ---- the program ------------------------------------------------------------------------------


def parse_cut(word):
    match = re.fullmatch(r"(\d+)@(\d+(?:\.\d*)?)", word)
    if not match:
        raise argparse.ArgumentTypeError(f"'{word}' is not HOST@SECONDS, as in 1@2.5")
    return int(match[1]), float(match[2])


def run(options):
    with Hosts(options.hosts, options.latency_ms, options.loss) as hosts:
        process = hosts.mpirun(options.ranks_per_host, options.command)
        if options.cut:
            host, after_s = options.cut
            try:
                return process.wait(after_s)
            except subprocess.TimeoutExpired:
                hosts.cut(host)
        return process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    modes = parser.add_subparsers(dest="mode", required=True)
    mode = modes.add_parser("run", help="runs a program on all hosts with mpirun")
    mode.add_argument("--hosts", type=int, default=2, choices=range(1, 17), metavar="1..16")
    mode.add_argument("--ranks-per-host", type=int, default=1)
    mode.add_argument("--latency-ms", type=float, default=0, help="of each frame, one way")
    mode.add_argument("--loss", type=float, default=0, help="percent of frames")
    mode.add_argument("--cut", type=parse_cut, metavar="HOST@SECONDS",
                      help="pull the cable of a host, from 0, so long after the start")
    mode.add_argument("command", nargs="+", metavar="-- PROGRAM ARGS")
    options = parser.parse_args()
    if options.cut and options.cut[0] >= options.hosts:
        parser.error(f"--cut: there are {options.hosts} hosts, from 0")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        return run(options)
    except Unavailable as why:
        print(f"skipped: {why}", file=sys.stderr)
        return SKIPPED


if __name__ == "__main__":
    sys.exit(main())
