"""Hold a lock of leaselock: one file, standard library only, Python 3.9 or later on Linux.

    with leaselock.hold("nightly", ttl="30s") as lease:
        for part in work:
            lease.check()                    # raises Lost
            store(part, fence=lease.fence)   # the store refuses a late holder

The lock is held by a child process, `leaselock hold`: LEASELOCK_BIN, else `leaselock` on PATH.
"""

import contextlib
import errno
import json
import os
import select
import subprocess
import time
import weakref

__all__ = ["hold", "Lease", "LeaselockError", "Busy", "Forked", "Lost", "Missing"]

GRACE_S = 0.1  # a renewal that is on its way is waited for so long before a loss is declared
RELEASE_S = 5.0  # a release that takes longer is left to the child: it may be frozen
NO_PROGRAM = (errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR)


class LeaselockError(Exception):
    """The lock could not be taken or released; `exit_code` says why, as in docs/command.md."""

    def __init__(self, text, exit_code=None, reason=None):
        super().__init__(text)
        self.exit_code, self.reason = exit_code, reason


class Busy(LeaselockError):
    """Another holder has the lock, and the wait is over."""


class Lost(LeaselockError):
    """The lease is over: stop the work that it protects. `reason` is the word of the event, if one came.

    When `release` has ended, `by` and `why` say who broke the lease, if an operator did and that is known.
    """

    by = why = None


class Missing(LeaselockError):
    """There is no leaselock to start."""


class Forked(LeaselockError):
    """This process is a fork of the holder, and holds nothing."""


def hold(name, *, url=None, kill=False, **flags):
    """Waits for the lock of this name and returns its lease.

    `flags` are those of `leaselock hold`, with `_` for `-`: ttl="30s", wait=300, nonblock=True, also=["b"]. With
    kill=True this process is ended before the lease is, with kill=PID that one. `url` goes to the child by its
    environment: no user reads it.
    """
    words = [os.environ.get("LEASELOCK_BIN") or "leaselock", "hold", "--json"]
    for flag, value in dict(flags, kill=os.getpid() if kill is True else kill or None).items():
        for one in [value] if isinstance(value, str) or not hasattr(value, "__iter__") else value:
            if one is not None and one is not False:
                one = f"{one:.9f}" if isinstance(one, float) else one  # no exponent
                words.append("--" + flag.replace("_", "-") + ("" if one is True else f"={one}"))
    # A file of URLs in the environment would count before a URL there.
    pipe, handed = subprocess.PIPE, {"LEASELOCK_URL": url, "LEASELOCK_URL_FILE": ""} if url else {}
    environment = dict(os.environ, **handed)
    try:
        # In a session of its own, or Ctrl-C would release the lock while this process still cleans up.
        child = subprocess.Popen(words + ["--", name], stdin=pipe, stdout=pipe, stderr=pipe,
                                 bufsize=0, env=environment, start_new_session=True)
    except (OSError, ValueError) as error:  # the latter of a NUL
        text = f"cannot start {words[0]}: {getattr(error, 'strerror', None) or error}"
        if getattr(error, "errno", None) not in NO_PROGRAM:
            raise LeaselockError(text) from error
        raise Missing(f"{text}; put leaselock on PATH or its path into LEASELOCK_BIN") from error
    try:
        lease = Lease(name, child)
        lease._begin()
        return lease
    except BaseException:  # Ctrl-C too: the child leaves the queue
        _drop(child.stdin, os.getpid())
        child.stdout.close()
        child.stderr.close()
        raise


def _drop(stdin, owner):
    """Releases what is no longer asked for. A line says so: a fork may keep the pipe open."""
    reader = select.poll()
    if not stdin.closed and os.getpid() == owner:
        reader.register(stdin, 0)
        with contextlib.suppress(OSError):
            if not reader.poll(0):  # or SIGPIPE would end a program that does not ignore it
                stdin.write(b"release\n")
    stdin.close()


class Lease:
    """A lock that is held. Use it by `with`, or call `release`. One thread at a time may use it.

    One that is dropped releases its lock, so keep it as long as the work takes.
    """

    def __init__(self, name, child):
        # Popen keeps a child that is dropped while it runs, and its pipes. At an exit the end of the process closes
        # them, after the handlers, which may work under the lock.
        weakref.finalize(self, _drop, child.stdin, os.getpid()).atexit = False
        self.name, self.pid, self._child, self._owner = name, child.pid, child, os.getpid()
        self._rest, self._ended, self._loss, self._deadline_ms, self._grant = b"", False, None, 0, None
        self._confirmed, self._word = False, None
        os.set_blocking(child.stdout.fileno(), False)

    def _begin(self):
        while self._grant is None and not self._ended:
            self._read(None)
        if self._grant is None:
            text, said = self._child.stderr.read().decode(errors="replace").strip(), {"exit": self._child.wait()}
            for line in text.splitlines():
                with contextlib.suppress(ValueError):
                    if line.startswith("{"):
                        said.update(json.loads(line))
            # As it says itself: the code is 0 where SIGCHLD is ignored, and that of busy can be chosen.
            code = said["exit"]
            kind = Busy if said.get("kind") == "busy" else {75: Busy, 79: Lost}.get(code, LeaselockError)
            raise kind(said.get("error") or text or f"leaselock ended with {code}", code)

    def _read(self, timeout_s):
        """Takes in what the child has written; waits for it at most so long, or without a limit."""
        poll = select.poll()
        if not self._ended:
            poll.register(self._child.stdout, select.POLLIN)
        while not self._ended and poll.poll(None if timeout_s is None else timeout_s * 1000):
            timeout_s, more = 0, os.read(self._child.stdout.fileno(), 65536)
            self._ended = not more
            *lines, self._rest = (self._rest + more).split(b"\n")
            for event in map(self._parse, lines):
                self._deadline_ms = event.get("deadline_boot_ms", self._deadline_ms)
                if event["event"] == "acquired":
                    self._grant = event
                elif event["event"] in ("lost", "unguarded"):
                    self._word = "lost"
                    self._loss = self._loss or Lost(event["text"], 79)  # or the clock has said so before
                    self._loss.reason = event.get("reason")
                elif event["event"] == "broken":  # after "lost"
                    self._loss.by, self._loss.why = event["by"], event["why"]
                    self._loss.args = (f"{self._loss}; {event['text']}",)
                elif event["event"] in ("released", "not-released"):  # somebody ended the child
                    self._word = event["event"]
                    self._loss = self._loss or Lost(event["text"], 79)

    def _parse(self, line):
        event = None
        with contextlib.suppress(ValueError):
            event = json.loads(line)
        if isinstance(event, dict) and "event" in event:
            return event
        self._child.terminate()
        said = line[:80].decode(errors="replace")
        raise LeaselockError(f"not `leaselock hold`: {self._child.args[0]} printed {said!r}")

    def _in_holder(self):
        if os.getpid() != self._owner:
            raise Forked(f"`{self.name}` is held by process {self._owner}, of which this one is a fork")

    @property
    def fence(self):
        """The fencing token: hand it to what the lock protects. With lead=True it is the term."""
        self._in_holder()
        return self._grant["fence"]

    @property
    def sequencer(self):
        """Name, fencing token and owner in one word, for a fence checker."""
        self._in_holder()
        return self._grant["sequencer"]

    def remaining(self):
        """Seconds until the lease ends, if no renewal comes; 0 when it has ended."""
        self._in_holder()
        self._read(0)
        now_ms = time.clock_gettime_ns(time.CLOCK_BOOTTIME) / 1e6
        return 0.0 if self._loss or self._ended else max(0.0, (self._deadline_ms - now_ms) / 1000)

    def check(self):
        """Raises Lost when the lease is over, also when the child is frozen or dead. Asks nobody else."""
        if self.remaining() == 0 and not self._loss:
            self._read(GRACE_S)
            if self.remaining() == 0 and not self._loss:
                why = "the process that held it has ended" if self._ended else "no renewal came before its deadline"
                self._loss = Lost(f"lost `{self.name}`: {why}", 79)
        if self._loss:
            raise self._loss.with_traceback(None)  # or each time would add to it

    def release(self):
        """Releases the lock, once. True if that is confirmed; raises Lost if the lease was lost before.

        Called again, it does nothing, and returns whether the first call was confirmed.
        """
        self._in_holder()
        if self._child.stdin.closed:
            return self._confirmed
        try:
            self.check()
        finally:
            code = self._end()
        if code == 79 or self._word == "lost":
            raise self._loss or Lost(f"lost `{self.name}`", 79)
        self._loss = Lost(f"`{self.name}` was released")
        self._confirmed = code == 0 and self._word == "released"  # the code is 0 too when another one has taken it
        return self._confirmed

    def _end(self):
        _drop(self._child.stdin, self._owner)
        try:
            code = self._child.wait(RELEASE_S)
        except subprocess.TimeoutExpired:
            return None
        self._read(0)  # whether it is released, or who broke it
        self._ended = True
        self._child.stdout.close()
        self._child.stderr.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        try:
            self.release()
        except LeaselockError:
            if kind is None:
                raise
