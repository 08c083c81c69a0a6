"""How each library is asked for what it has, as its own documents have it.

A library is a function of the server's URL. What it returns takes a name and what is wanted of it (Want in
src/contender/want.rs), and returns a function that does it. That of a limiter returns how many permits it got.
"""

import time


def _rate(want):
    if not isinstance(want, dict) or "Rate" not in want:
        raise ValueError("it has no such thing")
    return want["Rate"]


def _limits(strategy):
    def connect(url):
        import limits

        limiter = getattr(limits.strategies, strategy)(limits.storage.RedisStorage(url))

        def of(name, want):
            rate = _rate(want)
            item = limits.RateLimitItemPerSecond(rate["permits"], rate["seconds"])
            return lambda: int(limiter.hit(item, name))

        return of

    return connect


def _pyrate_limiter(url):
    import pyrate_limiter
    import redis

    client, known = redis.Redis.from_url(url), {}

    def of(name, want):
        rate = _rate(want)
        rates = [pyrate_limiter.Rate(rate["permits"], rate["seconds"] * pyrate_limiter.Duration.SECOND)]
        if name not in known:
            known[name] = pyrate_limiter.Limiter(pyrate_limiter.RedisBucket.init(rates, client, name))
        limiter = known[name]
        return lambda: int(limiter.try_acquire(name, blocking=False))

    return of


def _powertools(url):
    from aws_lambda_powertools.utilities.idempotency import idempotent_function
    from aws_lambda_powertools.utilities.idempotency.persistence.cache import CachePersistenceLayer

    layer = CachePersistenceLayer(url=url)

    @idempotent_function(data_keyword_argument="key", persistence_store=layer)
    def work(key):
        return "done"

    def of(name, want):
        if want == "Told":
            return lambda: work(key=name)
        if want == "Run":
            return lambda: work(key=f"{name}/{time.monotonic_ns()}")
        raise ValueError("it has no such thing")

    return of


ALL = {
    "limits-fixed": _limits("FixedWindowRateLimiter"),
    "limits-moving": _limits("MovingWindowRateLimiter"),
    "pyrate-limiter": _pyrate_limiter,
    "powertools": _powertools,
}
