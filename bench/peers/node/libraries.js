'use strict';
// How each library is asked for what it has, as its own documents have it, with its own intervals between two tries and
// with the lease of the other contenders.
//
// A library is a function of the server's URL. What it returns takes a name and what is wanted of it (Want in
// src/contender/want.rs), and returns a function that waits for it, runs `body` and gives it back. Of several names it
// returns as bits which ones they were, of a try at a limiter how many permits it got.

const Redis = require('ioredis');

const TTL_MS = 10000;
// No turn of ours may end because a library gives up.
const FOR_EVER = 1000000;

const connect = (url) => new Redis(Number(url.port), url.hostname);
const names = (name, count) => Array.from({ length: count }, (_, number) => `${name}/${number}`);

// Two different numbers below `count`.
function draw(count) {
  const first = Math.floor(Math.random() * count);
  const second = Math.floor(Math.random() * (count - 1));
  return [first, second < first ? second : second + 1];
}

// Several names at once, for a library that takes a list of them.
function several(run) {
  return (name, want) => {
    if (want.Several) {
      const all = names(name, want.Several.names);
      return (body) => run(all, body);
    }
    if (!want.Transfer) throw new Error('it has no such thing');
    const all = names(name, want.Transfer.of);
    return async (body) => {
      const [from, to] = draw(all.length);
      await run([all[from], all[to]], body);
      return 2 ** from + 2 ** to;
    };
  };
}

exports['redis-semaphore'] = (url) => {
  const { Semaphore, MultiSemaphore } = require('redis-semaphore');
  const client = connect(url);
  const wishes = { lockTimeout: TTL_MS, acquireTimeout: FOR_EVER };
  return (name, want) => {
    if (!want.Permits) throw new Error('it has no such thing');
    const { take, of } = want.Permits;
    // What takes several permits and what takes one of the same name are of one class, or they do not see each other's.
    const semaphore =
      of === 8 ? new MultiSemaphore(client, name, of, take, wishes) : new Semaphore(client, name, of, wishes);
    return async (body) => {
      await semaphore.acquire();
      await body();
      await semaphore.release();
    };
  };
};

exports.redlock = (url) => {
  const { default: Redlock } = require('redlock');
  const redlock = new Redlock([connect(url)], { retryCount: -1 });
  return several(async (all, body) => {
    const lock = await redlock.acquire(all, TTL_MS);
    await body();
    await lock.release();
  });
};

exports['redlock-universal'] = (url) => {
  const { IoredisAdapter, LockManager } = require('redlock-universal');
  const nodes = [new IoredisAdapter(connect(url))];
  const manager = new LockManager({ nodes, defaultTTL: TTL_MS });
  return several(async (all, body) => {
    const handles = await manager.acquireBatch(all, { retryAttempts: FOR_EVER });
    await body();
    await manager.releaseBatch(handles);
  });
};

exports['redis-leader'] = (url) => {
  const Leader = require('redis-leader');
  const client = connect(url);
  return (name, want) => {
    if (want !== 'Lead') throw new Error('it has no such thing');
    return async (body) => {
      const leader = new Leader(client, { key: name, ttl: TTL_MS });
      const [elected, revoked] = ['elected', 'revoked'].map((event) => new Promise((done) => leader.once(event, done)));
      leader.elect();
      await elected;
      // It sets the timer of its renewal only after the event.
      await new Promise(setImmediate);
      await body();
      leader.stop();
      await revoked;
    };
  };
};

// All tasks of a process share what is called the same.
function shared(make) {
  const known = new Map();
  return (name, want) => {
    if (!known.has(name)) known.set(name, make(name, want));
    return known.get(name);
  };
}

exports['rate-limiter-flexible'] = (url) => {
  const { RateLimiterRedis } = require('rate-limiter-flexible');
  const storeClient = connect(url);
  return shared((name, { Rate }) => {
    if (!Rate) throw new Error('it has no such thing');
    const { permits: points, seconds: duration } = Rate;
    const limiter = new RateLimiterRedis({ storeClient, keyPrefix: 'rate', points, duration });
    return async (body) => {
      let mark = 1;
      try {
        await limiter.consume(name);
      } catch (refused) {
        if (refused instanceof Error) throw refused;
        mark = 0;
      }
      await body();
      return mark;
    };
  });
};

exports.bottleneck = (url) => {
  const Bottleneck = require('bottleneck');
  return shared((name, { Rate }) => {
    if (!Rate) throw new Error('it has no such thing');
    const limiter = new Bottleneck({
      id: name,
      datastore: 'ioredis',
      Redis,
      clientOptions: { host: url.hostname, port: Number(url.port) },
      reservoir: Rate.permits,
      reservoirRefreshAmount: Rate.permits,
      reservoirRefreshInterval: Rate.seconds * 1000,
    });
    const turn = async (body) => {
      await limiter.schedule(async () => body());
      return 1;
    };
    turn.waits = true;
    return turn;
  });
};

exports['node-idempotency'] = (url) => {
  const { Idempotency } = require('@node-idempotency/core');
  const { RedisStorageAdapter } = require('@node-idempotency/storage-adapter-redis');
  const storage = new RedisStorageAdapter({ url: url.href });
  const connected = storage.connect();
  const idempotency = new Idempotency(storage, { keyMaxLength: 200 });
  return (name, want) => {
    if (want !== 'Run' && want !== 'Told') throw new Error('it has no such thing');
    return async (body) => {
      await connected;
      const key = want === 'Told' ? name : `${name}/${process.hrtime.bigint()}`;
      const request = { headers: { 'idempotency-key': key }, path: '/', method: 'POST', body: {} };
      if ((await idempotency.onRequest(request)) === undefined) {
        await body();
        await idempotency.onResponse(request, { body: 'done' });
      }
    };
  };
};
