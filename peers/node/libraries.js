'use strict';
// How each library is asked for a lock, as its own documents have it.
//
// A library is a function of `load` (requires from the folder of packages) and the server's port. What it returns has
// `acquire(name, ttl, tries)`, which resolves to a lock with `extend(ttl)` and `release()`, and `refusals`, the errors
// by which the library says that the lock is another's.

const HOST = '127.0.0.1';
// Between two tries, in milliseconds.
const DELAY = 50;

const older = (load, port) => load('node-redis-3').createClient(port, HOST);
const ioredis = (load, port) => new (load('ioredis'))(port, HOST);

exports.redislock = (load, port) => {
  const redislock = load('redislock');
  const client = older(load, port);
  return {
    refusals: [redislock.LockAcquisitionError, redislock.LockExtendError, redislock.LockReleaseError],
    async acquire(name, ttl, tries) {
      const lock = redislock.createLock(client, { timeout: ttl, retries: tries - 1, delay: DELAY });
      await lock.acquire(name);
      return { extend: (longer) => lock.extend(longer), release: () => lock.release() };
    },
  };
};

class Busy extends Error {}

exports['redis-exp-lock'] = (load, port) => {
  const lock = load('redis-exp-lock')({ redis: older(load, port) });
  return {
    refusals: [Busy],
    acquire: (name, ttl, tries) =>
      new Promise((resolve, reject) => {
        const wishes = { lifetime: ttl, maxRetries: tries - 1, retryTimeout: DELAY };
        lock(name, wishes, (error, retries, unlock) => {
          // It has no error of its own.
          if (error) return reject(/retry count/.test(error.message) ? new Busy(error.message) : error);
          const release = () =>
            new Promise((done, failed) => {
              unlock((problem, released) => (problem ? failed(problem) : done(released)));
            });
          return resolve({ release });
        });
      }),
  };
};

exports['redlock-4'] = (load, port) => {
  const Redlock = load('redlock-4');
  const client = ioredis(load, port);
  return {
    refusals: [Redlock.LockError],
    async acquire(name, ttl, tries) {
      const wishes = { retryCount: tries - 1, retryDelay: DELAY, retryJitter: 0 };
      const lock = await new Redlock([client], wishes).lock(name, ttl);
      return { extend: (longer) => lock.extend(longer), release: () => lock.unlock() };
    },
  };
};

exports['redlock-5'] = (load, port) => {
  const { default: Redlock, ExecutionError, ResourceLockedError } = load('redlock-5');
  const client = ioredis(load, port);
  return {
    refusals: [ExecutionError, ResourceLockedError],
    async acquire(name, ttl, tries) {
      const once = new Redlock([client], { retryCount: 0 });
      const wishes = { retryCount: tries - 1, retryDelay: DELAY, retryJitter: 0 };
      const lock = await once.acquire([name], ttl, wishes);
      return { extend: (longer) => once.extend(lock, longer), release: () => once.release(lock) };
    },
  };
};

exports['redlock-universal'] = (load, port) => {
  const universal = load('redlock-universal');
  const adapter = new universal.IoredisAdapter(ioredis(load, port));
  return {
    refusals: [universal.LockAcquisitionError, universal.LockExtensionError, universal.LockReleaseError],
    async acquire(name, ttl, tries) {
      const wishes = { adapter, key: name, ttl, retryAttempts: tries - 1, retryDelay: DELAY };
      const lock = universal.createLock(wishes);
      const handle = await lock.acquire();
      return { extend: (longer) => lock.extend(handle, longer), release: () => lock.release(handle) };
    },
  };
};

exports['redis-semaphore'] = (load, port) => {
  const { Mutex, TimeoutError } = load('redis-semaphore');
  const client = ioredis(load, port);
  return {
    refusals: [TimeoutError],
    async acquire(name, ttl, tries) {
      const mutex = new Mutex(client, name, {
        lockTimeout: ttl,
        acquireTimeout: tries * DELAY,
        acquireAttemptsLimit: tries,
        retryInterval: DELAY,
        refreshInterval: 0, // no renewal: the tests say when a lock runs out
      });
      await mutex.acquire();
      return { release: () => mutex.release() };
    },
  };
};

exports['node-redis-warlock'] = (load, port) => {
  const warlock = load('node-redis-warlock')(older(load, port));
  return {
    refusals: [Busy],
    acquire: (name, ttl, tries) =>
      new Promise((resolve, reject) => {
        const took = (error, unlock, id) => {
          if (error) return reject(error.maxAttempts ? new Busy(error.message) : error);
          if (!unlock) return reject(new Busy('no unlock'));
          const release = () =>
            new Promise((done, failed) => {
              unlock((problem, removed) => (problem ? failed(problem) : done(removed === 1)));
            });
          const extend = async (longer) => (await warlock.touch(name, id, longer)) === 'OK';
          return resolve({ extend, release });
        };
        // Only a single try hands out the id that `touch` asks for.
        if (tries === 1) warlock.lock(name, ttl, took);
        else warlock.optimistic(name, ttl, tries, DELAY, took);
      }),
  };
};

exports['ioredis-lock'] = (load, port) => {
  const { createLock, LockAcquisitionError, LockExtendError, LockReleaseError } = load('ioredis-lock');
  const client = ioredis(load, port);
  return {
    refusals: [LockAcquisitionError, LockExtendError, LockReleaseError],
    async acquire(name, ttl, tries) {
      const lock = createLock(client, { timeout: ttl, retries: tries - 1, delay: DELAY });
      await lock.acquire(name);
      return { extend: (longer) => lock.extend(longer), release: () => lock.release() };
    },
  };
};
