"""A lock library from PyPI on one server, told what to do by lines of JSON: ../README.md has the words.

    python driver.py LIBRARY PORT
"""

import importlib.metadata
import json
import logging
import sys
import time

import redis

# Between two tries, in seconds.
DELAY = 0.05


class Busy(Exception):
    """The library says that the lock is another's by returning False."""


class RedisPy:
    package = "redis"

    def __init__(self, client):
        self.client = client
        self.refusals = (redis.exceptions.LockError,)

    def acquire(self, name, ttl, tries):
        wait = tries > 1
        lock = self.client.lock(name, timeout=ttl, sleep=DELAY)
        if not lock.acquire(blocking=wait, blocking_timeout=tries * DELAY if wait else None):
            raise Busy
        return lock

    def extend(self, lock, ttl):
        return lock.extend(ttl, replace_ttl=True)

    def release(self, lock):
        return lock.release()


class PythonRedisLock:
    package = "python-redis-lock"

    def __init__(self, client):
        import redis_lock

        self.client = client
        self.lock = redis_lock.Lock
        self.refusals = (redis_lock.NotAcquired,)

    def acquire(self, name, ttl, tries):
        lock = self.lock(self.client, name, expire=int(ttl))
        if tries == 0:
            lock.acquire()
            return lock
        # Its own wait ends with a ring, which not everybody who shares the lock gives.
        for number in range(tries):
            if number:
                time.sleep(DELAY)
            if lock.acquire(blocking=False):
                return lock
        raise Busy

    def extend(self, lock, ttl):
        return lock.extend(int(ttl))

    def release(self, lock):
        return lock.release()


class Pottery:
    package = "pottery"

    def __init__(self, client):
        import pottery

        self.client = client
        self.lock = pottery.Redlock
        self.refusals = (pottery.ExtendUnlockedLock, pottery.ReleaseUnlockedLock)

    def acquire(self, name, ttl, tries):
        lock = self.lock(key=name, masters={self.client}, auto_release_time=ttl)
        wait = tries > 1
        if not lock.acquire(blocking=wait, timeout=tries * DELAY if wait else -1):
            raise Busy
        return lock

    def extend(self, lock, ttl):
        lock.auto_release_time = ttl
        return lock.extend()

    def release(self, lock):
        return lock.release()


LIBRARIES = {kind.package: kind for kind in (RedisPy, PythonRedisLock, Pottery)}


def obey(library, locks, order):
    verb = order["do"]
    if verb == "acquire":
        locks.append(library.acquire(order["name"], order["ttl_ms"] / 1000, order["tries"]))
        return {"got": len(locks)}
    lock = locks[order["lock"] - 1]
    if verb == "extend":
        said = library.extend(lock, order["ttl_ms"] / 1000)
    elif verb == "release":
        said = library.release(lock)
    else:
        raise ValueError(f"a word that nobody knows: {verb}")
    return {"refused": "False"} if said is False else {"done": True}


def answer(library, locks, line):
    try:
        return obey(library, locks, json.loads(line))
    except (Busy, *library.refusals) as error:
        return {"refused": f"{type(error).__name__}: {error}"}
    except Exception as error:  # whatever it is, the test that asked shows it
        return {"broken": f"{type(error).__name__}: {error}"}


def main():
    wanted, port = sys.argv[1:]
    library = LIBRARIES[wanted](redis.Redis(host="127.0.0.1", port=int(port)))
    # What a library has to say is in its answers.
    logging.disable()
    locks = []
    print(json.dumps({"version": importlib.metadata.version(wanted)}), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(library, locks, line)), flush=True)


main()
