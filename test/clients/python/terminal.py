"""A program on a pseudo terminal, typed at by a test."""
import os
import pty
import re
import select
import subprocess
import termios
import time

# Escape sequences with which readline moves the cursor and marks a paste.
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x07")


class Terminal:
    def __init__(self, argv, env=None, timeout=30):
        self.timeout = timeout
        self.seen = ""  # not yet taken by expect
        master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (50, 200))
        self.process = subprocess.Popen(
            argv, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env=dict(os.environ, TERM="xterm", TZ="UTC", **(env or {})),
        )
        os.close(slave)
        self.master = master

    def read(self, wait):
        ready, _, _ = select.select([self.master], [], [], wait)
        if not ready:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:  # the other end is closed
            return False
        self.seen = ESCAPES.sub("", self.seen + data.decode(errors="replace"))
        return bool(data)

    def expect(self, pattern):
        """Waits for a pattern and returns what came before and with it."""
        deadline = time.monotonic() + self.timeout
        while True:
            m = re.search(pattern, self.seen, re.S)
            if m:
                text, self.seen = self.seen[: m.end()], self.seen[m.end():]
                return text
            if not self.read(max(0, min(1, deadline - time.monotonic()))) and (
                self.process.poll() is not None or time.monotonic() > deadline
            ):
                raise AssertionError(f"{pattern!r} did not come; there is {self.seen!r}")

    def type(self, text):
        os.write(self.master, text.encode())

    def close(self):
        self.process.terminate()
        self.process.wait(10)
        os.close(self.master)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
